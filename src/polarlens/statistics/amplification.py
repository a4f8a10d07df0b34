"""How much an error grows from the block where it enters to the last one, and how the arms compare in that.

amplification = mean distance at the last block / mean distance at the perturbed block, both means over an item's
tokens and then over items. Distances are positive, so it is estimated on the log scale, linearised; t with clusters - 1
degrees of freedom. (A distance that is the same for every item, as under an absolute delta, has no interval of its own,
which Fieller's would need.)
"""

import math

import numpy as np

from polarlens.statistics.intervals import Array, Estimate, Interval, Moments

STILL = "a mean distance is not above 0"


def log_amplification(m: Moments) -> Estimate:
    """log(amplification) of one arm; m: moments of an item's mean distance at the (last, perturbed) block."""
    return _log_contrast(m, np.array([1.0, -1.0]))


def log_amplification_ratio(m: Moments) -> Estimate:
    """log(amplification of the first arm / of the second); m: (last, perturbed) of the first, then of the second."""
    return _log_contrast(m, np.array([1.0, -1.0, -1.0, 1.0]))


def exponential(estimate: Estimate, level: float = 0.95) -> tuple[float | None, Interval | None]:
    """A ratio and its interval, from the estimate of its logarithm."""
    if estimate.value is None:
        return None, None
    interval = estimate.interval(level)
    return math.exp(estimate.value), None if interval is None else (math.exp(interval[0]), math.exp(interval[1]))


def _log_contrast(m: Moments, signs: Array) -> Estimate:
    """sum_k sign_k log value_k; no value where one is not above 0."""
    if m.values is None:
        return m.linear(*signs)
    if not (m.values > 0).all():
        return Estimate(None, why=STILL)
    return m.smooth(float(signs @ np.log(m.values)), signs / m.values)
