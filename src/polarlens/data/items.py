"""Items: the passages and minimal pairs that are measured, as plain records."""

from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar


@dataclass(frozen=True)
class Text:
    """One passage for next-token loss.

    item: identity, `H` or `H-k`: H is the first 16 hex digits of the SHA-256 of the UTF-8 text (with cluster,
    phenomenon and positions where the file gives them), k counts exact repeats within one SPEC after filtering.
    cluster: the unit of resampling; H (without k) unless the file gives one.
    positions: character spans to perturb; None means all.
    line: 1-based line in `dataset`'s file, for messages.
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


T = TypeVar("T", Text, Pair)


@dataclass(frozen=True)
class Dataset(Generic[T]):
    """What one or several SPECs gave, with the provenance that goes into the manifest.

    sources: one record per SPEC: `spec`, `sha256` (of the file's bytes, or of the rows for a Hub set), `rows` (read),
    `items` (kept), `skipped` (reason -> count).
    """

    kind: Literal["text", "pairs"]
    items: tuple[T, ...]
    sources: tuple[dict[str, object], ...] = field(default=())
