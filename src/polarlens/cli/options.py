"""Option types that several commands share."""

from typing import Any, Optional

import typer

# typer reads `Optional`; the values stay text, or flags that are None when they are not given.
Text = Optional[str]  # noqa: UP045
Texts = Optional[list[str]]  # noqa: UP045
Flag = Optional[bool]  # noqa: UP045


def option(name: str, metavar: str, text: str) -> Any:
    """An option with a value."""
    return typer.Option(name, metavar=metavar, help=text)
