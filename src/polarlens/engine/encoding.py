"""Items to token ids: BOS, cutting, the window, and which tokens may be perturbed or are scored."""

from collections import Counter
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polarlens.data.items import Pair, Text, Tree
from polarlens.errors import UsageError
from polarlens.models.tokens import encode
from polarlens.perturbation import Sequence, align


@dataclass(frozen=True)
class Encoded:
    """One item as token ids.

    sequences: for a text or tree one list of ids, for a pair two (good, bad); an added BOS is token 0.
    noise: the identity of each sequence for drawing.
    perturbable: per sequence a mask over tokens, False outside the character spans that the item names.
    """

    item: Text | Pair | Tree
    sequences: tuple[tuple[int, ...], ...]
    noise: tuple[Sequence, ...]
    perturbable: tuple[np.ndarray, ...]

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence, BOS included."""
        return max(map(len, self.sequences))

    @property
    def n_scored(self) -> tuple[int, ...]:
        """Scored tokens per sequence: every token but the first, which has no context."""
        return tuple(len(ids) - 1 for ids in self.sequences)


@dataclass
class Encoding:
    """Encoded items with what was left out and cut."""

    items: tuple[Encoded, ...]
    skipped: Counter[str] = field(default_factory=Counter)
    cut: int = 0

    @property
    def share_cut(self) -> float:
        """Share of items that were longer than `max_tokens`."""
        return self.cut / len(self.items) if self.items else 0.0


def _in_spans(offsets: Many[tuple[int, int]], spans: Many[tuple[int, int]]) -> np.ndarray:
    """Tokens that overlap a span of characters."""
    return np.array([any(a < end and start < b for start, end in spans) for a, b in offsets], dtype=bool)


def encode_texts(
    texts: Many[Text], tokenizer: Any, bos: int | None, *, max_tokens: int, window: int | None
) -> Encoding:
    """Token ids of passages, cut to `max_tokens` (without BOS); items of fewer than two tokens are skipped and counted.

    Items whose spans lie wholly behind the cut are skipped and counted too. Raises UsageError for a text that, so cut,
    is longer than the model's window.
    """
    prefix = () if bos is None else (bos,)
    result = Encoding(())
    kept = []
    for text in texts:
        spans = text.positions
        coded = tokenizer(text.text, add_special_tokens=False, return_offsets_mapping=spans is not None)
        ids = list(coded["input_ids"])
        if len(ids) < 2:
            result.skipped["fewer than two tokens"] += 1
            continue
        whole, ids = len(ids), ids[:max_tokens]
        allowed = (
            np.ones(len(ids), dtype=bool) if spans is None else _in_spans(coded["offset_mapping"][:max_tokens], spans)
        )
        if not allowed.any():
            result.skipped["no token in the given positions, or all of them cut off"] += 1
            continue
        sequence = prefix + tuple(ids)
        if window is not None and len(sequence) > window:
            raise UsageError(
                f"{len(sequence)} tokens, BOS included, do not fit the model's window of {window}",
                where=f"--max-tokens, {text.dataset}, line {text.line}",
                fix=f"Give --max-tokens {window - len(prefix)} or less.",
            )
        result.cut += whole > max_tokens
        # With spans only what they cover is perturbed, so BOS is not.
        mask = np.concatenate([np.full(len(prefix), spans is None), allowed])
        noise = Sequence(item=text.item, member=None, n_tokens=len(sequence), slots=None)
        kept.append(Encoded(text, (sequence,), (noise,), (mask,)))
    result.items = tuple(kept)
    return result


def encode_pairs(pairs: Many[Pair], tokenizer: Any, bos: int | None, *, window: int | None) -> Encoding:
    """Token ids of both members of each pair, never cut; pairs longer than the window are skipped and counted.

    Raises UsageError for a pair whose members do not differ in any scored token: it cannot be judged.
    """
    prefix = () if bos is None else (bos,)
    result = Encoding(())
    kept = []
    for pair in pairs:
        good, bad = (prefix + tuple(encode(tokenizer, text)) for text in (pair.good, pair.bad))
        if min(len(good), len(bad)) < 2:
            result.skipped["fewer than two tokens"] += 1
            continue
        if window is not None and max(len(good), len(bad)) > window:
            result.skipped[f"longer than the model's window of {window} tokens"] += 1
            continue
        if good[1:] == bad[1:]:
            raise UsageError(
                "the members of this pair differ only in a token that is never scored"
                if good != bad
                else "the members of this pair have the same tokens",
                where=f"{pair.dataset}, line {pair.line}",
                fix="Prepend a BOS token (--bos auto) or remove the pair.",
            )
        slots = align(good, bad)
        noise = tuple(
            Sequence(item=pair.item, member=m, n_tokens=len(ids), slots=slots[m]) for m, ids in enumerate((good, bad))
        )
        kept.append(Encoded(pair, (good, bad), noise, tuple(np.ones(len(ids), dtype=bool) for ids in (good, bad))))
    result.items = tuple(kept)
    return result
