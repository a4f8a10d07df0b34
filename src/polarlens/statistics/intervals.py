"""Estimates from items that are grouped in clusters: value, standard error, degrees of freedom, intervals, p-values.

Every measure is a ratio of sums over items, D = sum num_i / sum den_i: den_i = 1 gives a mean of items, den_i = tokens
a rate per token. With the linearised influences psi_i = (num_i - D den_i) / mean(den), C clusters and n items,

    var D = C / (C - 1) * sum over clusters of (sum of psi_i within the cluster)^2 / n^2,   t with C - 1 df.

Draws are nested in items, so an item's num_i is its average over draws and the formula needs nothing else. Only where
items share draws is the seed a second random factor: with the two-way mean squares of psi over clusters x seeds,

    var D = (MS_item + MS_seed - MS_res) / (C J), floored at MS_item / (C J).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Interval = tuple[float, float]

RULE_OF_THREE = 300.0  # points: -100 ln 0.05, rounded
LARGEST = 1e60  # fourth powers stay finite


@dataclass(frozen=True)
class Estimate:
    """One estimated number.

    value: None where nothing could be estimated.
    se, df: standard error and degrees of freedom of Student's t; None where `why` says so.
    half95: half-width of the 95 % interval where no item differs from another and the scale is bounded (accuracy).
    why: the reason for what is missing.
    """

    value: float | None
    se: float | None = None
    df: float | None = None
    half95: float | None = None
    why: str | None = None

    def interval(self, level: float = 0.95) -> Interval | None:
        """The two-sided interval at `level`, or None where there is none."""
        if self.value is None:
            return None
        if self.half95 is not None:
            half = self.half95 * math.log(1.0 - level) / math.log(0.05)
        elif self.se is not None and self.df is not None:
            half = self.se * float(stdtrit(self.df, 0.5 + level / 2.0))
        else:
            return None
        low, high = self.value - half, self.value + half
        return (low, high) if math.isfinite(half) and low < high else None

    def p_above(self, bound: float = 0.0) -> float | None:
        """One-sided p of the null hypothesis that the true value is at most `bound`."""
        if self.value is None:
            return None
        if self.half95 is not None:
            two_sided = math.exp(math.log(0.05) * abs(self.value - bound) / self.half95)
            return two_sided / 2.0 if self.value > bound else 1.0 - two_sided / 2.0
        if self.se is None or self.df is None:
            return None
        return float(stdtr(self.df, (bound - self.value) / self.se))

    def p_below(self, bound: float = 0.0) -> float | None:
        """One-sided p of the null hypothesis that the true value is at least `bound`."""
        if self.value is None:
            return None
        return Estimate(-self.value, self.se, self.df, self.half95).p_above(-bound)

    def p_two_sided(self, bound: float = 0.0) -> float | None:
        """Two-sided p of the null hypothesis that the true value equals `bound`."""
        above, below = self.p_above(bound), self.p_below(bound)
        return None if above is None or below is None else min(1.0, 2.0 * min(above, below))


@dataclass(frozen=True)
class Moments:
    """Values of k quantities on the same items, and what the variance of any linear combination needs.

    values: (k,), None where no item is left.
    item, seed, residual: (k, k) mean squares and products divided by C J; `seed` and `residual` only for shared draws.
    n_seeds: J, the seeds of the two-way layout (1 for draws nested in items).
    scale: (k,) largest absolute item value, against which a spread of rounding errors is told from a real one.
    sums, weights: (k, C) and (C,) cluster sums of num and den, for resampling.
    bounded: the scale is points of accuracy, where items that all agree give an interval of +-300 / C points.
    why: the reason why no variance can be estimated.
    """

    values: Array | None
    n_items: int
    n_clusters: int
    item: Array | None = None
    seed: Array | None = None
    residual: Array | None = None
    n_seeds: int = 1
    scale: Array | None = None
    sums: Array | None = None
    weights: Array | None = None
    bounded: bool = False
    why: str | None = None

    def linear(self, *coefficients: float) -> Estimate:
        """The estimate of sum_k c_k value_k."""
        if self.values is None:
            return Estimate(None, why=self.why)
        c = np.asarray(coefficients, dtype=np.float64)
        value = float(c @ self.values)
        if self.item is None or self.scale is None:
            return Estimate(value, why=self.why)
        variance, df = self.variance(c[:, None])
        spread = float(abs(c) @ abs(self.item) @ abs(c))
        if variance[0] <= max(1e-14 * spread, (1e-13 * float(abs(c) @ self.scale)) ** 2):
            if self.bounded:
                return Estimate(value, half95=RULE_OF_THREE / self.n_clusters)
            return Estimate(value, why="zero variance: all items agree")
        return Estimate(value, math.sqrt(variance[0]), float(df[0]))

    def smooth(self, value: float, gradient: npt.ArrayLike) -> Estimate:
        """The estimate of a smooth function of the values, linearised: its value and its gradient (k,) there."""
        linear = self.linear(*np.asarray(gradient, dtype=np.float64))
        if linear.half95 is not None:
            return Estimate(value, why="zero variance: all items agree")
        return replace(linear, value=None if linear.value is None else value)

    def combined(self, *rows: Sequence[float]) -> "Moments":
        """The moments of linear combinations of the values, one per row of coefficients (k,)."""
        if self.values is None:
            return self
        c = np.asarray(rows, dtype=np.float64)

        def congruent(matrix: Array | None) -> Array | None:
            return None if matrix is None else c @ matrix @ c.T

        return replace(
            self,
            values=c @ self.values,
            item=congruent(self.item),
            seed=congruent(self.seed),
            residual=congruent(self.residual),
            scale=None if self.scale is None else abs(c) @ self.scale,
            sums=None if self.sums is None else c @ self.sums,
        )

    def variance(self, c: Array) -> tuple[Array, Array]:
        """Variances and degrees of freedom, each (m,), of m linear combinations; c: (k, m)."""
        assert self.item is not None
        item = np.einsum("km,kl,lm->m", c, self.item, c)
        df = np.full_like(item, self.n_clusters - 1.0)
        if self.seed is None or self.residual is None:
            return item, df
        seed = np.einsum("km,kl,lm->m", c, self.seed, c)
        residual = np.einsum("km,kl,lm->m", c, self.residual, c)
        total = item + seed - residual
        rows, columns = self.n_clusters - 1.0, self.n_seeds - 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            satterthwaite = total**2 / (item**2 / rows + seed**2 / columns + residual**2 / (rows * columns))
        floored = ~(total > item)
        df = np.where(floored, df, np.maximum(satterthwaite, min(rows, columns)))
        return np.where(floored, item, total), df


def moments(
    num: npt.ArrayLike,
    den: npt.ArrayLike | None = None,
    cluster: npt.ArrayLike | None = None,
    *,
    shared_draws: bool = False,
    bounded: bool = False,
) -> Moments:
    """Values and (co)variances of k quantities measured on the same items.

    num: (k, I) item averages, or (k, I, J) with one column per seed. Items with a missing (NaN) entry are left out.
    den: (I,) weights, 1 by default.
    cluster: (I,) labels, one cluster per item by default.
    shared_draws: items share the draw of a seed (columns are a random factor crossed with items); otherwise draws are
        nested in items and the columns are averaged.
    """
    x = np.asarray(num, dtype=np.float64)
    x = x[..., None] if x.ndim == 2 else x
    t = np.ones(x.shape[1]) if den is None else np.asarray(den, dtype=np.float64)
    labels = np.arange(x.shape[1]) if cluster is None else np.asarray(cluster)
    keep = np.isfinite(x).all(axis=(0, 2)) & np.isfinite(t)
    x, t, labels = x[:, keep], t[keep], labels[keep]
    n, codes = x.shape[1], np.unique(labels, return_inverse=True)[1]
    n_clusters = int(codes.max()) + 1 if n else 0
    if n == 0 or not t.sum() > 0:
        return Moments(None, n, n_clusters, why="no items" + (" with every seed" if shared_draws else ""))
    n_seeds = x.shape[2] if shared_draws else 1
    x = x if shared_draws else x.mean(axis=2, keepdims=True)
    if abs(x).max() > LARGEST:
        return Moments(None, n, n_clusters, why="the values are too large for their squares to be summed")
    values = x.mean(axis=2).sum(axis=1) / t.sum()
    influence = (x - values[:, None, None] * t[:, None]) / t.mean()
    # scaled so that the plain mean over clusters is the mean over items
    item, seed, residual = _mean_products(_within(influence, codes, n_clusters) * (n_clusters / n))
    common = {
        "scale": abs(x).max(axis=(1, 2)) / t.mean(),
        "sums": _within(x.mean(axis=2, keepdims=True), codes, n_clusters)[:, :, 0],
        "weights": _within(t[None, :, None], codes, n_clusters)[0, :, 0],
    }
    if n_clusters == 1:
        one = "one item" if n == 1 else "all items are in one cluster"
        return Moments(values, n, 1, n_seeds=n_seeds, bounded=bounded, why=f"{one}: no interval", **common)
    if not shared_draws:
        return Moments(values, n, n_clusters, item, bounded=bounded, **common)
    if n_seeds == 1:
        why = "one seed: items share its draw, so its variance cannot be estimated"
        return Moments(values, n, n_clusters, n_seeds=1, bounded=bounded, why=why, **common)
    return Moments(values, n, n_clusters, item, seed, residual, n_seeds=n_seeds, bounded=bounded, **common)


def clustered_mean(values: npt.ArrayLike, cluster: npt.ArrayLike | None = None) -> Estimate:
    """The mean of `values` with the clustered t interval: one number per item (or per observation) and its cluster."""
    return moments(np.asarray(values, dtype=np.float64)[None], cluster=cluster).linear(1.0)


def ratio_of_sums(num: npt.ArrayLike, den: npt.ArrayLike, cluster: npt.ArrayLike | None = None) -> Estimate:
    """sum(num) / sum(den), linearised; (I,) each."""
    return moments(np.asarray(num, dtype=np.float64)[None], den, cluster).linear(1.0)


def as_list(interval: Interval | None) -> list[float] | None:
    """An interval as it stands in `summary.json`."""
    return None if interval is None else [float(interval[0]), float(interval[1])]


def on_the_scale(interval: Interval | None) -> Interval | None:
    """The part of an accuracy's interval that lies between 0 and 100 points."""
    return None if interval is None else (max(interval[0], 0.0), min(interval[1], 100.0))


def inside(interval: Interval | None, low: float, high: float) -> bool:
    """Whether the interval exists and lies strictly between `low` and `high`."""
    return interval is not None and low < interval[0] and interval[1] < high


def _within(x: Array, codes: IntArray, n_clusters: int) -> Array:
    """Sums over the items of each cluster: (k, I, J) -> (k, C, J)."""
    if n_clusters == len(codes):
        return x
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(n_clusters))
    return np.add.reduceat(x[:, order], starts, axis=1)


def _mean_products(z: Array) -> tuple[Array, Array, Array]:
    """Two-way mean squares and products of (k, C, J), divided by C J: item, seed, residual, each (k, k).

    Entries whose degrees of freedom are 0 are 0.
    """
    k, rows, columns = z.shape

    def products(x: Array, factor: float, df: int) -> Array:
        flat = x.reshape(k, -1)
        return factor * (flat @ flat.T) / (df * rows * columns) if df else np.zeros((k, k))

    grand = z.mean(axis=(1, 2), keepdims=True)
    by_row = z.mean(axis=2, keepdims=True) - grand
    item = products(by_row, columns, rows - 1)
    if columns == 1:
        return item, np.zeros((k, k)), np.zeros((k, k))
    by_column = z.mean(axis=1, keepdims=True) - grand
    residual = products(z - grand - by_row - by_column, 1.0, (rows - 1) * (columns - 1))
    return item, products(by_column, rows, columns - 1), residual
