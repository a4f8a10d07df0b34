"""Which blocks are perturbed: from what the user writes (`8-15`, `4,6`, `middle`, `each`) to groups of block numbers.

Blocks are numbered from zero and ranges include both ends. A group is the set of blocks perturbed at once.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

from polarlens.errors import UsageError

FORMS = "Write blocks as 8-15, 4,6 or 8-15,20 (from zero, both ends included), or middle, or each."

_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def parse_layers(spec: str, n_layers: int) -> tuple[tuple[int, ...], ...]:
    """The groups of blocks that `spec` names in a model of `n_layers` blocks, each group in ascending order.

    `middle` is the middle third, floor(L/3) to floor(2L/3) - 1, at least one block. `each` gives one group per block;
    every other form gives one group. Raises UsageError when the spec cannot be read or names a block that is not there.
    """
    if n_layers < 1:
        raise ValueError(f"a model has at least one block, not {n_layers}")
    if spec == "each":
        return tuple((block,) for block in range(n_layers))
    if spec == "middle":
        first = n_layers // 3
        return (tuple(range(first, max(first + 1, 2 * n_layers // 3))),)
    ranges = read_ranges(spec)
    last = max(stop for _, stop in ranges)
    if last >= n_layers:
        raise UsageError(
            f"block {last} is not in this model, whose {n_layers} blocks are 0 to {n_layers - 1}",
            where="layers",
            fix=FORMS,
        )
    return (tuple(block for first, stop in ranges for block in range(first, stop + 1)),)


def read_ranges(spec: str) -> list[tuple[int, int]]:
    """The (first, last) ranges that a spec of numbers names, in ascending order; needs no model.

    Raises UsageError for an empty spec, anything that is not a number or a range, a range that runs backwards, and a
    block named twice.
    """
    ranges = []
    for part in spec.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"{part.strip()!r} in {spec!r} names no block or range", where="layers", fix=FORMS)
        first = int(match[1])
        last = int(match[2] or match[1])
        if last < first:
            raise UsageError(f"the range {first}-{last} runs backwards", where="layers", fix=f"Write {last}-{first}.")
        ranges.append((first, last))
    ranges.sort()
    for (_, last), (following, _) in pairwise(ranges):
        if following <= last:
            raise UsageError(f"block {following} is named twice", where="layers", fix="Name every block once.")
    return ranges


def format_layers(layers: Iterable[int]) -> str:
    """The canonical spelling of one group: `8-15`, `4,6`, `8-15,20`; a single block is its number."""
    blocks = set(layers)
    starts = sorted(block for block in blocks if block - 1 not in blocks)
    stops = sorted(block for block in blocks if block + 1 not in blocks)
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, stops, strict=True))
