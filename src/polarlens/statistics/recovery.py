"""Repair: what share of a damage comes back when a path is held clean, and whether it differs between the arms.

recovery = 1 - D_repaired / D, a ratio of means (for rates per token, of sums), defined only where the interval of D
lies above 0. Its interval is Fieller's, turned round. A difference of recoveries is linearised: an item's influence on
one of them is (rho·psi_D - psi_repaired) / D, rho = D_repaired / D; t with clusters - 1 degrees of freedom.
"""

from dataclasses import dataclass

from polarlens.statistics.intervals import Estimate, Interval, Moments
from polarlens.statistics.ratio import ratio, ratio_interval

UNHARMED = "the damage is not clearly above 0"


@dataclass(frozen=True)
class Share:
    """A share of something: value None, or interval None, with the reason in `why`."""

    value: float | None
    ci95: Interval | None = None
    why: str | None = None


def recovery(m: Moments) -> Share:
    """The recovery of one arm; m: moments of (repaired, unrepaired) damages on the same items."""
    found = share(m, UNHARMED)
    if found.value is None:
        return found
    interval = None if found.ci95 is None else (1.0 - found.ci95[1], 1.0 - found.ci95[0])
    return Share(1.0 - found.value, interval, found.why)


def recovery_difference(m: Moments) -> Estimate:
    """recovery(first arm) - recovery(second); m: (repaired, unrepaired) of the first arm, then of the second.

    No value where the damage of either arm is not clearly above 0.
    """
    for row in ((0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)):
        interval = m.linear(*row).interval()
        if interval is None or not interval[0] > 0:
            return Estimate(None, why=UNHARMED)
    assert m.values is not None
    a, d, b, e = map(float, m.values)
    return m.smooth(b / e - a / d, (-1 / d, a / d**2, 1 / e, -b / e**2))


def share(m: Moments, why: str) -> Share:
    """value_0 / value_1 with Fieller's interval; None, saying `why`, where the denominator is not clearly above 0."""
    value, undefined = ratio(m)
    if value is None:
        return Share(None, why=f"{why} ({undefined})")
    interval, unbounded = ratio_interval(m)
    return Share(value, interval, unbounded)
