"""The pages' templates: every string that is put into one is escaped."""

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from polarlens.report.figures import styled, svg

if TYPE_CHECKING:
    import altair as alt
    import jinja2


@cache
def environment() -> "jinja2.Environment":
    """Templates of this package; a name that a template does not get is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("polarlens.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["whole"] = _whole
    return found


def picture(chart: "alt.LayerChart", name: str, words: str) -> Any:
    """The chart as inline SVG. Several drawings share one document, so their ids get `name` in front.

    words: what a reader who does not see it is told.
    """
    from markupsafe import Markup, escape

    text = svg(styled(chart))
    text = text[text.index("<svg") :]
    text = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    return Markup(text.replace("<svg", f'<svg role="img" aria-label="{escape(words)}"', 1))


def _whole(text: str) -> str:
    """An interval that is not broken across lines."""
    return text.replace(", ", ",\u00a0")
