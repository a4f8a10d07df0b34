"""Files written by a test."""

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str, str | bytes], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file, text as UTF-8 without any change of line ends, and give its path."""

    def write_file(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return str(path)

    return write_file
