"""Items: passages, minimal pairs and trees as plain records, and the identity that keys their draws."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar


@dataclass(frozen=True)
class Text:
    """One passage for next-token loss.

    text: the passage, stripped.
    item: identity, `H` or `H-k`: H is `identity` of the text, k = 1, 2, ... counts further occurrences of the same H
    within one SPEC after filtering (the first has no suffix, so that a longer file renames nothing).
    cluster: the unit of resampling; H (without k) unless the file gives one.
    dataset: the SPEC it was read from, as given.
    positions: character spans [start, end) of `text` to perturb, in Unicode code points, in order; None means all.
    line: 1-based line in `dataset`'s file where the record starts (1-based row of a Hub set), for messages.
    """

    text: str
    item: str
    cluster: str
    dataset: str
    line: int
    phenomenon: str | None = None
    positions: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class Pair:
    """One minimal pair: an acceptable and an unacceptable sentence. Fields as in `Text`."""

    good: str
    bad: str
    item: str
    cluster: str
    dataset: str
    line: int
    phenomenon: str | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """One syntactic word of a tree.

    upos: universal part of speech; None where the treebank gives none.
    head: 1-based number of the word it depends on, 0 for a root.
    depth: number of arcs up to its root, 0 for a root.
    span: characters [start, end) of the sentence's text. Words of a multiword token whose spelling does not divide into
    theirs ("du" for "de le") share its span; None where the text does not hold the word.
    """

    form: str
    upos: str | None
    head: int
    deprel: str | None
    depth: int
    span: tuple[int, int] | None


@dataclass(frozen=True)
class Tree:
    """One sentence of a treebank: its text, to be tokenised, and its words. Other fields as in `Text`.

    sent_id: the treebank's name for the sentence, None where it has none.
    """

    text: str
    words: tuple[Word, ...]
    item: str
    cluster: str
    dataset: str
    line: int
    phenomenon: str | None = None
    sent_id: str | None = None


T = TypeVar("T", Text, Pair, Tree)


@dataclass(frozen=True)
class Dataset(Generic[T]):
    """What one or several SPECs gave, with the provenance that goes into the manifest.

    sources: one record per SPEC: `spec` (as given), `sha256` (of the file's bytes, or of the rows for a Hub set),
    `rows` (read), `items` (kept), `skipped` (reason -> count: "blank", "text filter", "limit"; a reason that did not
    occur is absent). rows = items + everything skipped.
    """

    kind: Literal["text", "pairs", "trees"]
    items: tuple[T, ...]
    sources: tuple[dict[str, object], ...] = field(default=())


def identity(
    text: str,
    *,
    cluster: str | None = None,
    phenomenon: str | None = None,
    positions: Sequence[tuple[int, int]] | None = None,
) -> str:
    """H, the first 16 hex digits of a SHA-256 that stand for an item.

    The bytes hashed are the stripped text in UTF-8 (a pair: good + newline + bad) followed, for each of `cluster`,
    `phenomenon` and `positions` that the file states under that name, in this order, by NUL, the name, NUL and the
    value (positions as compact JSON, `[[0,4],[9,12]]`). No text or label holds a NUL, so no two items read alike.
    """
    stated = {
        "cluster": cluster,
        "phenomenon": phenomenon,
        "positions": None if positions is None else json.dumps(positions, separators=(",", ":")),
    }
    parts = [text, *(part for name, value in stated.items() if value is not None for part in (name, value))]
    return hashlib.sha256("\0".join(parts).encode("utf-8")).hexdigest()[:16]
