"""The bias-corrected accelerated bootstrap over clusters of items: a cross-check of the t and Fieller intervals.

Efron (1987), "Better Bootstrap Confidence Intervals". The statistic is a ratio of sums, which covers means
(weights 1), rates per token, differences of arms and ratios of arms. Deterministic: the resamples depend on the seed
and the number of clusters alone.
"""

from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from polarlens.statistics.intervals import Array, Interval

RESAMPLES = 2000
MIN_CLUSTERS = 5  # below this the resamples are a handful of values


def bca(num: Array, den: Array, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0) -> Interval | None:
    """BCa interval of sum(num) / sum(den); (C,) cluster sums each.

    None where it does not exist: too few clusters, no spread, or a resample whose denominator is not positive.
    """
    n = len(num)
    if n < MIN_CLUSTERS:
        return None
    counts = _counts(n, resamples, seed)
    bottom, bottom_without = counts @ den, den.sum() - den
    if not ((bottom > 0).all() and (bottom_without > 0).all()):
        return None
    estimate = num.sum() / den.sum()
    replicates = (counts @ num) / bottom
    jackknife = (num.sum() - num) / bottom_without
    deviation = jackknife.mean() - jackknife
    below = float((replicates < estimate).mean() + 0.5 * (replicates == estimate).mean())
    spread = float((deviation**2).sum())
    if not 0.0 < below < 1.0 or not spread > (1e-12 * (abs(jackknife).max() + 1e-300)) ** 2:
        return None
    bias, acceleration = float(ndtri(below)), float((deviation**3).sum()) / (6.0 * spread**1.5)
    z = bias + ndtri(np.array([0.5 - level / 2.0, 0.5 + level / 2.0]))
    if not (acceleration * z < 1.0).all():
        return None
    low, high = np.quantile(replicates, ndtr(bias + z / (1.0 - acceleration * z)))
    return (float(low), float(high)) if np.isfinite([low, high]).all() and low < high else None


@lru_cache(maxsize=4)
def _counts(n: int, resamples: int, seed: int) -> Array:
    """How often each of n clusters is drawn in each resample, (resamples, n)."""
    generator = np.random.Generator(np.random.Philox(key=[seed, n]))
    return generator.multinomial(n, np.full(n, 1.0 / n), size=resamples).astype(np.float64)
