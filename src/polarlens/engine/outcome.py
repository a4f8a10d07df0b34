"""What a pass over a batch leaves behind: clean caches, scores, and the displacement as it was realised."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polarlens.perturbation import Displacement


@dataclass(frozen=True)
class Clean:
    """What a clean pass leaves for the conditions on the same batch.

    output: what the first perturbed block returned (raw, before any hook). norms: layer -> (B, T) norms of the clean
    states, working precision, on the CPU. logp: (N, V) clean log-probabilities at the scored positions, only when KL
    is wanted. nll: (N,) float64.
    """

    output: Any
    norms: Mapping[int, Tensor]
    logp: Tensor | None
    nll: Tensor


@dataclass
class Realised:
    """Displacement of one condition on one batch as measured after the cast; arrays are per row (B,).

    first_sum, first_count: sum and number of realised distances at the first perturbed layer.
    max_error: largest |realised / asked - 1| over layers and tokens (sequences under matching `mean`).
    norm_change: largest | |h'|/|h| - 1 | over layers and tokens.
    saturated: number of layers at which the scale of the plane hit its bound.
    left: (B, T) bool, tokens left at run time (or infeasible and perturbed).
    by_layer: layer -> (sum of realised, sum of asked) over all tokens that took part.
    """

    first_sum: np.ndarray
    first_count: np.ndarray
    max_error: np.ndarray
    norm_change: np.ndarray
    saturated: np.ndarray
    left: Tensor
    by_layer: dict[int, tuple[float, float]]

    @classmethod
    def nothing(cls, shape: tuple[int, int]) -> "Realised":
        """Nothing measured yet."""
        zeros = np.zeros(shape[0])
        return cls(zeros, zeros, zeros, zeros, zeros, torch.zeros(shape, dtype=torch.bool), {})

    def record(self, moved: Displacement, layer: int, *, first: bool, by_sequence: bool) -> None:
        """Add what was measured at one layer.

        first: the first perturbed layer. by_sequence: only the average distance of a sequence was to be realised.
        """
        asked, realised = moved.asked.cpu().double(), moved.realised.cpu().double()
        took = asked > 0
        got, wanted = (t.sum(-1, keepdim=True) if by_sequence else t for t in (torch.where(took, realised, 0.0), asked))
        error = torch.where(wanted > 0, (got / wanted.clamp_min(1e-300) - 1).abs(), 0.0)
        change = torch.where(took, moved.norm_change.cpu().double().abs(), 0.0)
        self.max_error = np.maximum(self.max_error, error.amax(-1).numpy())
        self.norm_change = np.maximum(self.norm_change, change.amax(-1).numpy())
        self.saturated = self.saturated + moved.saturated.cpu().numpy()
        self.left |= moved.left.cpu()
        self.by_layer[layer] = (float(realised[took].sum()), float(asked[took].sum()))
        if first:
            self.first_sum = (realised * took).sum(-1).numpy()
            self.first_count = took.sum(-1).numpy()


@dataclass(frozen=True)
class Outcome:
    """Scores of one condition on one batch, per row (B,): summed nll and KL (nats), token counts, realised distance."""

    nll: np.ndarray
    kl: np.ndarray | None
    eligible: np.ndarray
    infeasible: np.ndarray
    realised: Realised
