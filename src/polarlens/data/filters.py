"""Which passages of a text set are kept."""

from collections.abc import Callable, Mapping
from types import MappingProxyType


def notebook(text: str) -> bool:
    """The filter that the notebook of arXiv 2602.11169 puts on WikiText: one-sentence to one-paragraph prose.

    Kept: 31 to 299 characters after stripping, no heading (does not start with "="), with a full stop in it.
    """
    return 30 < len(text) < 300 and not text.startswith("=") and "." in text


TEXT_FILTERS: Mapping[str, Callable[[str], bool]] = MappingProxyType({"none": lambda text: True, "notebook": notebook})
