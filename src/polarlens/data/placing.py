"""Where the words of a tree stand in the text of its sentence."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import NamedTuple

Span = tuple[int, int]


class MultiwordToken(NamedTuple):
    """What is written as one: words [start, stop), zero-based, spelled `form` together."""

    start: int
    stop: int
    form: str
    spaced: bool


def word_spans(
    text: str, forms: Sequence[str], spaced: Sequence[bool], multiword: Sequence[MultiwordToken]
) -> list[Span | None]:
    """Character spans [start, end) of `text` for each word; None where the text does not hold it.

    spaced: whether a space follows each word. multiword: in order, without overlap; the spacing of their words does not
    count. A multiword token is divided where its words spell it; else they share its span.
    """
    units: list[MultiwordToken] = []
    at = 0
    for token in [*multiword, MultiwordToken(len(forms), len(forms), "", False)]:
        units += [MultiwordToken(i, i + 1, forms[i], spaced[i]) for i in range(at, token.start)]
        units.append(token)
        at = token.stop
    spans: list[Span | None] = [None] * len(forms)
    for unit, span in zip(units, _located(text, units), strict=True):
        members = forms[unit.start : unit.stop]
        if span is not None and "".join(members) == unit.form:
            ends = list(accumulate(map(len, members), initial=span[0]))
            spans[unit.start : unit.stop] = pairwise(ends)
        else:
            spans[unit.start : unit.stop] = [span] * len(members)
    return spans


def _located(text: str, units: Sequence[MultiwordToken]) -> list[Span | None]:
    """Where each unit stands in `text`: there directly when the units spell it, else where a comparison finds them."""
    spelled, own = "", []
    for unit in units:
        own.append((len(spelled), len(spelled) + len(unit.form)))
        spelled += unit.form + " " * unit.spaced
    if spelled.rstrip() == text:
        return list(own)
    blocks = SequenceMatcher(None, spelled, text, autojunk=False).get_matching_blocks()
    return [next(((s - a + b, e - a + b) for a, b, size in blocks if a <= s < e <= a + size), None) for s, e in own]
