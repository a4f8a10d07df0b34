"""Damages -> moments: one arm, or the two arms paired on the items that both have."""

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from polarlens.statistics.damage import ArmDamage, Condition, Damages
from polarlens.statistics.intervals import Array, IntArray, Moments, moments

Policies = Mapping[str, Mapping[str, object]]  # policy_id -> factor -> level | {arm: level}
BOUNDED = ("accuracy",)
ANGULAR, MAGNITUDE = 0, 1  # the order of the arms in paired moments


def draws_shared(policies: Policies, policy_id: str | None, arm: str) -> bool:
    """Whether items share their draws in this arm (`across_items` is `by-length`)."""
    level = policies.get(policy_id or "", {}).get("across_items", "fresh")
    return (level.get(arm) if isinstance(level, Mapping) else level) == "by-length"


def clean_moments(damages: Damages, task: str, measure: str, phenomenon: str | None = None) -> Moments | None:
    """The clean level of `nll` (per token), `nll_item` or `accuracy`; None when the task has no items."""
    unit = np.flatnonzero((damages.items["task"] == task).to_numpy()).astype(np.int64)
    unit = unit[damages.of_phenomenon(unit, phenomenon)]
    if not len(unit):
        return None
    return moments(
        _clean(damages, measure, unit)[None],
        damages.weights(measure, unit),
        damages.clusters(unit),
        bounded=measure in BOUNDED,
    )


def arm_moments(
    damages: Damages,
    arm: ArmDamage,
    measure: str,
    *,
    shared_draws: bool,
    phenomenon: str | None = None,
    level: bool = False,
) -> Moments | None:
    """Moments (k = 1) of one arm's damage, or of the perturbed level (`level`); None when nothing was measured."""
    keep = damages.of_phenomenon(arm.unit, phenomenon)
    values, unit = arm.values[measure][keep], arm.unit[keep]
    if level:
        sign = -1.0 if measure in ("accuracy", "margin") else 1.0
        values = _clean(damages, measure, unit)[:, None] + sign * values
    values = values if shared_draws else item_means(values)
    if not np.isfinite(values).any():
        return None
    return moments(
        values[None],
        damages.weights(measure, unit),
        damages.clusters(unit),
        shared_draws=shared_draws,
        bounded=measure in BOUNDED,
    )


def paired_moments(
    damages: Damages,
    angular: ArmDamage,
    magnitude: ArmDamage,
    measure: str,
    *,
    shared_draws: bool,
    phenomenon: str | None = None,
) -> Moments | None:
    """Moments (k = 2: angular, magnitude) on the items that both arms have; None without such items."""
    arms = (angular, magnitude)
    return joint_moments(damages, arms, measure, shared_draws=shared_draws, phenomenon=phenomenon)


def joint_moments(
    damages: Damages,
    arms: Sequence[ArmDamage],
    measure: str,
    *,
    shared_draws: bool,
    phenomenon: str | None = None,
) -> Moments | None:
    """Moments of one measure of each of `arms` in turn, on the items that all of them have; None without such items.

    arms: their row numbers refer to the items of `damages`. With shared draws only the seeds that all of them have
    enter, one column each.
    """
    unit: IntArray = reduce(np.intersect1d, [arm.unit for arm in arms])
    unit = unit[damages.of_phenomenon(unit, phenomenon)]
    seeds: IntArray = reduce(np.intersect1d, [arm.seeds for arm in arms])
    values = []
    for arm in arms:
        rows = arm.values[measure][np.searchsorted(arm.unit, unit)]
        values.append(rows[:, np.searchsorted(arm.seeds, seeds)] if shared_draws else item_means(rows))
    every = np.stack(values)
    if not np.isfinite(every).all(axis=0).any():
        return None
    return moments(
        every,
        damages.weights(measure, unit),
        damages.clusters(unit),
        shared_draws=shared_draws,
        bounded=measure in BOUNDED,
    )


def by_condition(arms: tuple[ArmDamage, ...]) -> dict[Condition, dict[str, ArmDamage]]:
    """Condition -> arm -> damages, in the order given."""
    out: dict[Condition, dict[str, ArmDamage]] = {}
    for arm in arms:
        out.setdefault(arm.condition, {})[arm.arm] = arm
    return out


def _clean(damages: Damages, measure: str, unit: IntArray) -> Array:
    table = damages.items.iloc[unit]
    if measure == "nll_item":
        return (table["nll"] / table["n_tokens"]).to_numpy(np.float64)
    return table[measure].to_numpy(np.float64)


def item_means(values: Array) -> Array:
    """(I, J) -> (I, 1), over the seeds that an item has."""
    there = np.isfinite(values)
    count = there.sum(axis=1, keepdims=True)
    return np.where(there, values, 0.0).sum(axis=1, keepdims=True) / np.where(count, count, np.nan)
