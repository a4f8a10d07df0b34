"""What changing a noise factor does to the two contrasts, paired over items.

The log of the loss ratio R = D_angular / D_magnitude and the accuracy contrast drop_magnitude - drop_angular are
compared between policies on the same items: a weighted sum over policies, weights 1 and -1 for an effect and 1, -1, -1,
1 for an interaction. Intervals are linearised (delta method), clustered, and two-way where items share draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from polarlens.statistics.damage import ArmDamage, Damages
from polarlens.statistics.intervals import Array, Estimate, IntArray, Moments, moments

Arms = Mapping[str, ArmDamage]  # arm -> damages, of one policy


def stacked(
    measured: Damages, policies: Sequence[Arms], measure: str, *, shared_draws: bool, bounded: bool = False
) -> Moments | None:
    """Moments of (angular, magnitude) of each policy in turn, on the items that all of them have; None without any.

    With shared draws only the seeds that all of them have enter, one column each.
    """
    arms = [policy[arm] for policy in policies for arm in ("angular", "magnitude")]
    unit: IntArray = reduce(np.intersect1d, [arm.unit for arm in arms])
    seeds: IntArray = reduce(np.intersect1d, [arm.seeds for arm in arms])
    if not len(unit):
        return None
    values = []
    for arm in arms:
        rows = arm.values[measure][np.searchsorted(arm.unit, unit)]
        values.append(rows[:, np.searchsorted(arm.seeds, seeds)] if shared_draws else _means(rows))
    found = moments(
        np.stack(values),
        measured.weights(measure, unit),
        measured.clusters(unit),
        shared_draws=shared_draws,
        bounded=bounded,
    )
    return found if found.values is not None else None


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


def _means(values: Array) -> Array:
    """(I, J) -> (I, 1), over the seeds that an item has."""
    there = np.isfinite(values)
    count = there.sum(axis=1, keepdims=True)
    return np.where(there, values, 0.0).sum(axis=1, keepdims=True) / np.where(count, count, np.nan)
