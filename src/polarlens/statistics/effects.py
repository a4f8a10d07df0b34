"""What changing a noise factor does to the two contrasts, paired over items.

The log of the loss ratio R = D_angular / D_magnitude and the accuracy contrast drop_magnitude - drop_angular are
compared between policies on the same items: a weighted sum over policies, weights 1 and -1 for an effect and 1, -1, -1,
1 for an interaction. Intervals are linearised (delta method), clustered, and two-way where items share draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from polarlens.statistics.damage import ArmDamage, Damages
from polarlens.statistics.estimates import joint_moments
from polarlens.statistics.intervals import Estimate, Moments

Arms = Mapping[str, ArmDamage]  # arm -> damages, of one policy


def stacked(measured: Damages, policies: Sequence[Arms], measure: str, *, shared_draws: bool) -> Moments | None:
    """Moments of (angular, magnitude) of each policy in turn, on the items that all of them have; None without any."""
    arms = [policy[arm] for policy in policies for arm in ("angular", "magnitude")]
    found = joint_moments(measured, arms, measure, shared_draws=shared_draws)
    return found if found is not None and found.values is not None else None


def log_ratio(m: Moments, weights: Sequence[float]) -> Estimate:
    """sum_p w_p log(D_angular / D_magnitude) over policies p; undefined unless every damage's interval is above 0."""
    assert m.values is not None
    for k in range(len(m.values)):
        damage = m.linear(*np.eye(len(m.values))[k])
        interval = damage.interval()
        if interval is None or not interval[0] > 0:
            return Estimate(None, why=damage.why or "a damage whose interval is not above 0 has no logarithm")
    signs = np.repeat(np.asarray(weights, dtype=np.float64), 2) * np.tile([1.0, -1.0], len(weights))
    return replace(m.linear(*(signs / m.values)), value=float(signs @ np.log(m.values)))


def accuracy_contrast(m: Moments, weights: Sequence[float]) -> Estimate:
    """sum_p w_p (drop_magnitude - drop_angular) over policies p, points."""
    return m.linear(*(np.repeat(np.asarray(weights, dtype=np.float64), 2) * np.tile([-1.0, 1.0], len(weights))))
