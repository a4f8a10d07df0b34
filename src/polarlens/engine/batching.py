"""Length buckets under a token budget: right-padded batches, longest first."""

from collections.abc import Iterator
from collections.abc import Sequence as Many
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from polarlens.engine.encoding import Encoded
from polarlens.perturbation import Sequence


@dataclass(frozen=True)
class Batch:
    """Right-padded sequences of whole items: both members of a pair are rows of one batch.

    ids, mask: (B, T) int64; mask is 1 on real tokens.
    perturbable: (B, T) bool, real tokens that the items allow to be perturbed.
    scored: (N,) flat indices into B·T of the positions whose next token is scored; targets: (N,) those tokens;
    row_of: (N,) the row of each scored position.
    """

    items: tuple[Encoded, ...]
    ids: Tensor
    mask: Tensor
    perturbable: Tensor
    scored: Tensor
    targets: Tensor
    row_of: Tensor
    has_bos: bool

    @cached_property
    def sequences(self) -> tuple[Sequence, ...]:
        """The noise identity of each row."""
        return tuple(s for item in self.items for s in item.noise)

    @property
    def shape(self) -> tuple[int, int]:
        """(B, T)."""
        return self.ids.shape[0], self.ids.shape[1]

    def sum_rows(self, values: Tensor) -> Tensor:
        """Sum of (..., N) token values within each of the B rows, in float64."""
        out = torch.zeros(*values.shape[:-1], self.shape[0], dtype=torch.float64)
        return out.index_add_(-1, self.row_of, values.double().cpu())


def make_batch(items: Many[Encoded], *, has_bos: bool) -> Batch:
    """Pad the items' sequences on the right, so that positions and causal attention of real tokens are untouched."""
    sequences = [ids for item in items for ids in item.sequences]
    allowed = [mask for item in items for mask in item.perturbable]
    rows, width = len(sequences), max(map(len, sequences))
    ids = np.zeros((rows, width), dtype=np.int64)
    mask = np.zeros((rows, width), dtype=np.int64)
    perturbable = np.zeros((rows, width), dtype=bool)
    scored, targets, row_of = [], [], []
    for row, (sequence, allow) in enumerate(zip(sequences, allowed, strict=True)):
        n = len(sequence)
        ids[row, :n], mask[row, :n], perturbable[row, :n] = sequence, 1, allow
        scored.append(row * width + np.arange(n - 1))
        targets.append(sequence[1:])
        row_of.append(np.full(n - 1, row))
    return Batch(
        tuple(items),
        torch.from_numpy(ids),
        torch.from_numpy(mask),
        torch.from_numpy(perturbable),
        torch.from_numpy(np.concatenate(scored)),
        torch.from_numpy(np.concatenate(targets).astype(np.int64)),
        torch.from_numpy(np.concatenate(row_of)),
        has_bos,
    )


def by_length(items: Many[Encoded]) -> list[Encoded]:
    """Longest first; ties by identity, so that the order does not depend on the order of the input."""
    return sorted(items, key=lambda e: (-e.longest, e.item.dataset, e.item.item))


def batches(items: Many[Encoded], tokens: int, *, has_bos: bool) -> Iterator[Batch]:
    """Batches of at most `tokens` padded tokens (one item at least), longest items first."""
    pending: list[Encoded] = []
    for item in by_length(items):
        width = max(pending[0].longest, item.longest) if pending else item.longest
        if pending and width * sum(len(e.sequences) for e in [*pending, item]) > tokens:
            yield make_batch(pending, has_bos=has_bos)
            pending = []
        pending.append(item)
    if pending:
        yield make_batch(pending, has_bos=has_bos)
