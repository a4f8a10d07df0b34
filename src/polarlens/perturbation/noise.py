"""Draws as a pure function of seed, item, member, layer, arm and token index, and of what the policy shares.

One counter-based generator (Philox) per sequence and layer, keyed by a hash. Row i of its stream does not depend on how
many rows are drawn, so a token's draw depends neither on batch, padding and order nor on the tokens after it. No global
random state is read or written.
"""

import hashlib
from collections.abc import Sequence as Many
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polarlens.errors import UsageError
from polarlens.perturbation.policy import Arm, Policy

Slots = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sequence:
    """The noise identity of one sequence of tokens.

    item: identity of the item. member: 0 good, 1 bad member of a minimal pair, None for a text.
    n_tokens: real tokens, BOS included, padding not.
    slots: (n_tokens,) labels of the tokens under `common` noise, equal where members are aligned; None: 0, 1, 2, ...
    """

    item: str
    member: int | None
    n_tokens: int
    slots: Slots | None = None


def align(good: Many[int], bad: Many[int]) -> tuple[Slots, Slots]:
    """Slots under which the aligned positions of a minimal pair share their draw.

    With p the common prefix of the token ids and s <= shorter length - p the common suffix, both align; in between the
    j-th token of one member aligns with the j-th of the other as far as both have one, the rest draw alone.
    """
    a, b = np.asarray(good, dtype=np.int64), np.asarray(bad, dtype=np.int64)
    shorter = min(len(a), len(b))
    prefix = _common(a[:shorter], b[:shorter])
    suffix = _common(a[::-1][: shorter - prefix], b[::-1][: shorter - prefix])
    # The longer member is counted through; the shorter one skips what only the longer has.
    slots = np.arange(max(len(a), len(b)), dtype=np.int64)
    skipping = np.concatenate([slots[: shorter - suffix], slots[len(slots) - suffix :]])
    return (slots, skipping) if len(a) >= len(b) else (skipping, slots)


def _common(a: Slots, b: Slots) -> int:
    """How many leading entries of two arrays of one length are equal."""
    differ = np.flatnonzero(a != b)
    return int(differ[0]) if len(differ) else len(a)


def gaussian(
    policy: Policy, arm: Arm, seed: int, layer: int, sequences: Many[Sequence], width: int, length: int | None = None
) -> NDArray[np.float32]:
    """Standard normal draws (B, T, width), float32; T = `length` or the largest n_tokens, zeros beyond n_tokens."""
    out = np.zeros((len(sequences), _padded(sequences, length), width), dtype=np.float32)
    for rows, bits in _streams(policy, arm, seed, layer, sequences):
        # Rows that share a key (members of a pair, items of one length) are cut from one stream.
        drawn = _normal(np.random.Generator(bits), max(top for _, _, top in rows), width)
        for row, slots, _ in rows:
            out[row, : sequences[row].n_tokens] = drawn[slots]
    return out


def coins(
    policy: Policy, arm: Arm, seed: int, layer: int, sequences: Many[Sequence], length: int | None = None
) -> NDArray[np.int8]:
    """Fair signs (B, T), int8 in {+1, -1}; T = `length` or the largest n_tokens, 0 beyond n_tokens."""
    out = np.zeros((len(sequences), _padded(sequences, length)), dtype=np.int8)
    for rows, bits in _streams(policy, arm, seed, layer, sequences):
        drawn = _signs(bits, max(top for _, _, top in rows))
        for row, slots, _ in rows:
            out[row, : sequences[row].n_tokens] = drawn[slots]
    return out


class Stream:
    """Draws of one sequence whose length grows, as in generation with a cache; equal to the slice of the full draw.

    Parameters
    ----------
    item: identity of the sequence; in generation the row number.

    Raises UsageError under `by-length` noise, which needs the final number of tokens.
    """

    def __init__(self, policy: Policy, arm: Arm, seed: int, layer: int, item: str, width: int) -> None:
        if policy.level("across_items", arm) == "by-length":
            raise UsageError(
                "noise keyed by length is not defined for a sequence that grows",
                where="across_items",
                fix="Use the level 'fresh'.",
            )
        self._key, self._width = _key(policy, arm, seed, layer, Sequence(item, None, 0)), width
        self._restart()

    def _restart(self) -> None:
        self._generator, self._drawn = np.random.Generator(_philox(self._key)), 0

    def gaussian(self, start: int, n: int) -> NDArray[np.float32]:
        """Standard normal draws (n, width) of the tokens start, ..., start + n - 1."""
        if start < self._drawn:
            self._restart()
        drawn = _normal(self._generator, start + n - self._drawn, self._width)
        self._drawn = start + n
        return drawn[len(drawn) - n :]

    def coins(self, start: int, n: int) -> NDArray[np.int8]:
        """Fair signs (n,) of the tokens start, ..., start + n - 1."""
        return _signs(_philox(self._key), start + n)[start:]


_Rows = list[tuple[int, Slots | slice, int]]


def _streams(
    policy: Policy, arm: Arm, seed: int, layer: int, sequences: Many[Sequence]
) -> list[tuple[_Rows, np.random.Philox]]:
    """One generator per distinct key, with the rows that read it: (row, entries to read, entries needed)."""
    common = policy.level("across_members", arm) == "common" and policy.level("across_items", arm) == "fresh"
    by_key: dict[int, _Rows] = {}
    for row, sequence in enumerate(sequences):
        slots: Slots | slice = slice(0, sequence.n_tokens)
        top = sequence.n_tokens
        if common and sequence.slots is not None and top:
            slots, top = sequence.slots, int(sequence.slots.max()) + 1
        by_key.setdefault(_key(policy, arm, seed, layer, sequence), []).append((row, slots, top))
    return [(rows, _philox(key)) for key, rows in by_key.items()]


def _key(policy: Policy, arm: Arm, seed: int, layer: int, sequence: Sequence) -> int:
    """128 bits that name the stream of one sequence; what the policy shares is left out."""
    by_length = policy.level("across_items", arm) == "by-length"
    independent = policy.level("across_members", arm) == "independent" and sequence.member is not None
    parts = (
        f"arm={arm}",
        f"seed={int(seed)}",
        "layer=shared" if policy.level("across_layers", arm) == "shared" else f"layer={int(layer)}",
        f"member={sequence.member}" if independent else "member=common",
        f"length={sequence.n_tokens}" if by_length else f"item={sequence.item}",
    )
    return int.from_bytes(hashlib.blake2b("\n".join(parts).encode(), digest_size=16).digest(), "little")


def _philox(key: int) -> np.random.Philox:
    return np.random.Philox(key=key)


def _normal(generator: np.random.Generator, rows: int, width: int) -> NDArray[np.float32]:
    return generator.standard_normal((rows, width), dtype=np.float32)


def _signs(bits: np.random.Philox, n: int) -> NDArray[np.int8]:
    """Entry i is bit i % 64 of word i // 64 of the stream."""
    words = np.asarray(bits.random_raw(-(-n // 64)), dtype="<u8")
    return np.unpackbits(words.view(np.uint8), bitorder="little")[:n].astype(np.int8) * np.int8(2) - np.int8(1)


def _padded(sequences: Many[Sequence], length: int | None) -> int:
    return max((s.n_tokens for s in sequences), default=0) if length is None else length
