"""How far a perturbed state or attention pattern is from the clean one: pure functions, in the working dtype."""

from typing import NamedTuple

import torch
from torch import Tensor

from polarlens.perturbation import norms
from polarlens.perturbation.geometry import positive, widened


class Gap(NamedTuple):
    """Per state (...), with n, n' the norms of h, h': distance² = radial² + angular².

    distance: |h' - h|. radial: n' - n, signed. angular: 2·sqrt(n n')·sin(angle/2). cosine: of the angle between them,
    meaningless for a zero vector.
    """

    distance: Tensor
    radial: Tensor
    angular: Tensor
    cosine: Tensor


def gap(clean: Tensor, moved: Tensor) -> Gap:
    """The gap between states (..., d)."""
    clean, moved = widened(clean), widened(moved)
    n, m = norms(clean), norms(moved)
    # |u' - u| = 2·sin(angle/2) does not cancel at small angles, as the cosine would.
    chord = norms(moved / positive(m)[..., None] - clean / positive(n)[..., None])
    return Gap(norms(moved - clean), m - n, (n * m).sqrt() * chord, 1 - chord.square() / 2)


def entropy(weights: Tensor) -> Tensor:
    """Entropy in nats of distributions (..., S) -> (...)."""
    return torch.special.entr(widened(weights)).sum(dim=-1)


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """Jensen-Shannon divergence in nats of distributions (..., S) -> (...): from 0 (equal, exactly) to ln 2.

    With s = p + q and r = (q - p)/s it is the sum of s/4·((1 - r)·log(1 - r) + (1 + r)·log(1 + r)), in which no term is
    negative and those of equal weights are 0.
    """
    p, q = widened(p), widened(q)
    s = p + q
    r = torch.where(s > 0, (q - p) / positive(s), 0.0)
    terms = torch.special.xlog1py(1 - r, -r) + torch.special.xlog1py(1 + r, r)
    return (s * terms).sum(dim=-1) / 4
