"""The ratio of two damages, with Fieller's interval; where items share draws, the same idea with two-way variances.

Both are the set of rho for which the interval of A - rho M holds 0. With covariances v and t the quantile, Fieller's
set solves (M^2 - t^2 v_MM) rho^2 - 2 (A M - t^2 v_AM) rho + (A^2 - t^2 v_AA) <= 0, a bounded interval exactly when the
interval of M leaves 0 out.
"""

import math

import numpy as np
from scipy.special import stdtrit

from polarlens.statistics.intervals import Array, BoolArray, Interval, Moments


def ratio(m: Moments) -> tuple[float | None, str | None]:
    """(value_0 / value_1, None), or (None, why) where the 95 % interval of the denominator is not above 0."""
    denominator = m.linear(0.0, 1.0)
    interval = denominator.interval()
    if interval is None:
        return None, f"the denominator has no interval ({denominator.why})"
    if not interval[0] > 0:
        return None, "the denominator's interval is not above 0"
    assert m.values is not None
    value = float(m.values[0] / m.values[1])
    return (value, None) if math.isfinite(value) else (None, "the ratio is not finite")


def ratio_interval(m: Moments, level: float = 0.95) -> tuple[Interval | None, str | None]:
    """(interval of value_0 / value_1, None), or (None, why)."""
    denominator = m.linear(0.0, 1.0).interval(level)
    if m.values is None or m.item is None or denominator is None:
        return None, m.why or "the denominator has no interval"
    if not denominator[0] > 0:
        return None, f"the denominator's interval at level {level:.4g} is not above 0: the set of ratios is unbounded"
    found = _fieller(m, level) if m.seed is None else _two_way(m, level)
    if found is None or not all(map(math.isfinite, found)):
        return None, "the set of ratios is unbounded"
    if found[1] - found[0] <= 1e-7 * max(abs(found[0]), abs(found[1])):
        return None, "zero variance: numerator and denominator are proportional item by item"
    return (float(found[0]), float(found[1])), None


def _fieller(m: Moments, level: float) -> Interval | None:
    assert m.values is not None
    assert m.item is not None
    a, b = m.values
    t2 = float(stdtrit(m.n_clusters - 1.0, 0.5 + level / 2.0)) ** 2
    lead = b * b - t2 * m.item[1, 1]
    middle = a * b - t2 * m.item[0, 1]
    constant = a * a - t2 * m.item[0, 0]
    if not lead > 0:
        return None
    root = math.sqrt(max(middle * middle - lead * constant, 0.0))
    return (middle - root) / lead, (middle + root) / lead


def _two_way(m: Moments, level: float) -> Interval | None:
    """The hull of the set: a scan over rho = R + s tan(theta), then bisection; the floor makes variances piecewise."""
    assert m.values is not None
    a, b = m.values
    centre = a / b

    def inside(rho: Array) -> BoolArray:
        variance, df = m.variance(np.stack([np.ones_like(rho), -rho]))
        return abs(a - rho * b) <= stdtrit(df, 0.5 + level / 2.0) * np.sqrt(np.maximum(variance, 0.0))

    variance, _ = m.variance(np.array([[1.0, 0.0], [-centre, 1.0]]))
    spread = max(math.sqrt(max(variance[0], 0.0)) / b, 1e-12 * max(abs(centre), 1e-300))
    rho = centre + spread * np.tan(np.linspace(-1.0, 1.0, 4001) * (math.pi / 2 - 1e-6))
    held = np.flatnonzero(inside(rho))
    if held.size == 0:
        return float(centre), float(centre)
    first, last = int(held[0]), int(held[-1])
    if first == 0 or last == len(rho) - 1:
        return None

    def edge(outside: float, within: float) -> float:
        for _ in range(60):
            middle = 0.5 * (outside + within)
            if inside(np.array([middle]))[0]:
                within = middle
            else:
                outside = middle
        return within

    return edge(float(rho[first - 1]), float(rho[first])), edge(float(rho[last + 1]), float(rho[last]))
