"""Two runs' damages brought together: paired by item where they share items, independent samples otherwise.

Every damage is a ratio of sums with the run's own weights, so items are paired by their linearised values
x_i = D + (s_i - D t_i) / mean(t), whose mean is D and whose spread is that of D: a text that two tokenizers cut into
different numbers of tokens is still one item. Without enough items in common variances add, with Welch's degrees of
freedom.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polarlens.statistics.damage import ArmDamage, Condition, Damages
from polarlens.statistics.estimates import ANGULAR, MAGNITUDE, Policies, by_condition, draws_shared, item_means
from polarlens.statistics.intervals import Array, BoolArray, Estimate, IntArray, Moments, moments

ENOUGH = 0.5  # paired on the common items where these are at least this share of the smaller run's

Names = npt.NDArray[np.object_]
Coefficients = tuple[float, float]  # of the angular and the magnitude damage
Arms = Mapping[str, ArmDamage]


@dataclass(frozen=True)
class Side:
    """One run of two: its name, damages, and which conditions are usable. loss_measure: `nll` or `nll_item`."""

    name: str
    measured: Damages
    usable: Mapping[Condition, bool]
    policies: Policies
    loss_measure: str

    def conditions(self, task: str) -> dict[Condition, dict[str, ArmDamage]]:
        """The conditions of a task in which both arms were measured."""
        found = by_condition(self.measured.arms)
        return {c: arms for c, arms in found.items() if c.task == task and len(arms) == 2}

    def identities(self) -> Names:
        """(I,) a name per item, the same wherever the same content was read: its digest, repeats numbered."""
        items = self.measured.items
        again = items.groupby(["task", "item"], sort=False).cumcount().astype(str)
        return (items["task"].astype(str) + "\n" + items["item"].astype(str) + "\n" + again).to_numpy(object)


@dataclass(frozen=True)
class Joint:
    """Both runs' damages (angular, magnitude) in one measure; `both` (a's, then b's) where items are paired."""

    a: Moments
    b: Moments
    both: Moments | None

    def linear(self, a: Coefficients, b: Coefficients) -> Estimate:
        """The estimate of sum_k a_k D_a,k + b_k D_b,k."""
        if self.both is not None:
            return self.both.linear(*a, *b)
        return independent_sum(self.a.linear(*a), self.b.linear(*b))


def join(a: Side, b: Side, arms_a: Arms, arms_b: Arms, measure: str) -> Joint | None:
    """The damages of both runs in one measure under one condition; None where nothing was measured in one of them."""
    first, second = _sample(a, arms_a, measure), _sample(b, arms_b, measure)
    _, in_a, in_b = np.intersect1d(first.identity, second.identity, return_indices=True)
    bounded = measure == "accuracy"
    if len(in_a) < ENOUGH * max(1, min(len(first.identity), len(second.identity))):
        first, second = first.at(first.finite), second.at(second.finite)
        if not (len(first.identity) and len(second.identity)):
            return None
        return Joint(_moments(first.linearised, first, bounded), _moments(second.linearised, second, bounded), None)
    first, second = first.at(in_a), second.at(in_b)
    if first.shared != second.shared:
        return None
    if first.shared:
        _, columns_a, columns_b = np.intersect1d(first.seeds, second.seeds, return_indices=True)
        first, second = first.drawn(columns_a), second.drawn(columns_b)
    there = first.finite & second.finite
    if not there.any():
        return None
    first, second = first.at(there), second.at(there)
    x = np.concatenate([first.linearised, second.linearised])
    return Joint(*(_moments(part, first, bounded) for part in (x[:2], x[2:], x)))


def independent_sum(one: Estimate, other: Estimate) -> Estimate:
    """The sum of two independent estimates, with Welch's degrees of freedom."""
    why = "; ".join(dict.fromkeys(e.why for e in (one, other) if e.why)) or None
    if one.value is None or other.value is None:
        return Estimate(None, why=why)
    value = one.value + other.value
    if one.half95 is not None or other.half95 is not None:  # all items of a run agree, which is no certainty
        halves = [(ends[1] - ends[0]) / 2 for e in (one, other) if (ends := e.interval()) is not None]
        return Estimate(value, half95=math.hypot(*halves)) if len(halves) == 2 else Estimate(value, why=why)
    if one.se is None or other.se is None or one.df is None or other.df is None:
        return Estimate(value, why=why)
    first, second = one.se**2, other.se**2
    df = (first + second) ** 2 / (first**2 / one.df + second**2 / other.df)
    return Estimate(value, math.sqrt(first + second), df)


def shared_items(a: Side, b: Side, task: str) -> tuple[int, int, int]:
    """Items of a task in a, in b, and in both."""
    first, second = (one.identities()[(one.measured.items["task"] == task).to_numpy()] for one in (a, b))
    return len(first), len(second), len(np.intersect1d(first, second))


@dataclass(frozen=True)
class _Sample:
    """One run's items under one condition.

    x: (2, I, J) numerators, angular and magnitude; J = 1 unless items share the draws of a seed. t: (I,) weights.
    """

    x: Array
    t: Array
    identity: Names
    cluster: Names
    seeds: IntArray
    shared: bool

    def at(self, index: IntArray | BoolArray) -> "_Sample":
        """The items of an index or a mask."""
        kept = (self.x[:, index], self.t[index], self.identity[index], self.cluster[index])
        return _Sample(*kept, self.seeds, self.shared)

    def drawn(self, columns: IntArray) -> "_Sample":
        """Some of the seeds."""
        return _Sample(self.x[:, :, columns], self.t, self.identity, self.cluster, self.seeds[columns], self.shared)

    @property
    def finite(self) -> BoolArray:
        """(I,) items without a missing value."""
        return (np.isfinite(self.x).all(axis=(0, 2)) & np.isfinite(self.t)).astype(np.bool_)

    @property
    def linearised(self) -> Array:
        """(2, I, J) values whose mean is the ratio of sums, and whose spread is that of its influences."""
        value = self.x.mean(axis=2).sum(axis=1)[:, None, None] / self.t.sum()
        return value + (self.x - value * self.t[:, None]) / self.t.mean()


def _moments(x: Array, one: _Sample, bounded: bool) -> Moments:
    return moments(x, cluster=one.cluster, shared_draws=one.shared, bounded=bounded)


def _sample(one: Side, arms: Arms, measure: str) -> _Sample:
    angular, magnitude = arms["angular"], arms["magnitude"]
    shared = any(draws_shared(one.policies, angular.condition.policy_id, arm) for arm in arms)
    unit, in_angular, in_magnitude = np.intersect1d(angular.unit, magnitude.unit, return_indices=True)
    x = [angular.values[measure][in_angular], magnitude.values[measure][in_magnitude]]
    seeds = angular.seeds
    if shared:
        seeds, columns_a, columns_m = np.intersect1d(angular.seeds, magnitude.seeds, return_indices=True)
        x = [x[ANGULAR][:, columns_a], x[MAGNITUDE][:, columns_m]]
    else:
        x = [item_means(values) for values in x]
    labels = one.measured.items["label"].to_numpy(object)[unit]
    weights = one.measured.weights(measure, unit)
    return _Sample(np.stack(x), weights, one.identities()[unit], labels, seeds, shared)
