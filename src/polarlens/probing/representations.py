"""What a probe is given of a state, and how it is entered: scaling and bins from the training words alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from polarlens.probing.words import Array

Features = npt.NDArray[np.float32]
BINS = 20


def _direction(states: Array, profile: Array) -> Array:
    size: Array = np.linalg.norm(states, axis=1)[:, None]
    return states / np.where(size > 0, size, 1.0)


def _random_number(states: Array, profile: Array) -> Array:
    """A projection of the direction on one random unit vector, the same for all blocks and models of a width."""
    generator = np.random.Generator(np.random.Philox(key=[0, states.shape[1]]))
    axis: Array = generator.standard_normal((states.shape[1], 1))
    return _direction(states, profile) @ (axis / np.sqrt((axis**2).sum()))


@dataclass(frozen=True)
class Representation:
    """of: (N, d) states and (N, b + 2) norms at the blocks up to this one -> (N, k); binned: numbers that get bins."""

    of: Callable[[Array, Array], Array]
    binned: bool


REPRESENTATIONS: Mapping[str, Representation] = MappingProxyType(
    {
        "direction": Representation(_direction, binned=False),
        "norm": Representation(lambda states, profile: profile[:, -1:], binned=True),
        "full": Representation(lambda states, profile: states, binned=False),
        "norm-profile": Representation(lambda states, profile: profile, binned=True),
        "random-1d": Representation(_random_number, binned=True),
    }
)


@dataclass(frozen=True)
class Entered:
    """How numbers are entered into a probe.

    edges: (k, 19) inner quantiles of the training values of each number, None where it gets no bins. mean, scale: of
    all columns over the training words; a column without spread has scale 1.
    """

    edges: Array | None
    mean: Array
    scale: Array

    @classmethod
    def fitted(cls, values: Array, *, binned: bool) -> "Entered":
        """Bins and scaling from training values (n, k)."""
        edges = np.quantile(values, np.arange(1, BINS) / BINS, axis=0).T if binned else None
        columns = _columns(values, edges)
        scale = columns.std(axis=0)
        # Below this a spread is rounding.
        constant = scale <= 1e-7 * np.abs(columns).max(axis=0, initial=0.0)
        return cls(edges, columns.mean(axis=0), np.where(constant, 1.0, scale))

    def __call__(self, values: Array) -> Features:
        """(N, k) -> (N, k), or (N, 21 k): each number followed by its one-hot bins."""
        columns = _columns(values, self.edges) - self.mean
        columns /= self.scale
        return columns.astype(np.float32)


def _columns(values: Array, edges: Array | None) -> Array:
    if edges is None:
        return np.asarray(values, dtype=np.float64)
    parts = []
    for column, inner in zip(np.asarray(values, dtype=np.float64).T, edges, strict=True):
        parts += [column, np.searchsorted(inner, column, "right")[:, None] == np.arange(BINS)]
    return np.column_stack(parts).astype(np.float64)
