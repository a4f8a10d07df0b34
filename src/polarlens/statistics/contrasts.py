"""The arms compared under one condition: differences and ratios, with intervals and p-values over the deltas."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from polarlens.statistics.bootstrap import bca
from polarlens.statistics.cells import describe
from polarlens.statistics.damage import MEASURES, Condition, Damages
from polarlens.statistics.estimates import ANGULAR, MAGNITUDE, Policies, by_condition, draws_shared, paired_moments
from polarlens.statistics.intervals import Estimate, Moments, as_list
from polarlens.statistics.multiplicity import bonferroni_level, holm
from polarlens.statistics.ratio import ratio, ratio_interval

UNUSABLE = "both arms are at the floor of the task: the delta is not usable"
# angular - magnitude for losses, magnitude - angular for accuracy and margin: positive is what the paper says
SIGN: dict[str, tuple[float, float]] = {
    **dict.fromkeys(MEASURES["loss"], (1.0, -1.0)),
    **dict.fromkeys(MEASURES["pairs"], (-1.0, 1.0)),
}


@dataclass(frozen=True)
class Comparison:
    """The damages of both arms (moments: angular, magnitude) in one measure; `usable` as in `floors`."""

    condition: Condition
    measure: str
    phenomenon: str | None
    moments: Moments
    usable: bool
    shared_draws: bool

    @property
    def difference(self) -> Estimate:
        """angular - magnitude for losses, magnitude - angular for accuracy and margin."""
        return self.moments.linear(*SIGN[self.measure])

    @property
    def series(self) -> tuple[object, ...]:
        """The family of tests it belongs to: all deltas and blocks of one measure."""
        c = self.condition
        return (c.task, self.measure, self.phenomenon, c.positions, c.policy_id)


def comparisons(damages: Damages, policies: Policies, usable: Mapping[Condition, bool]) -> list[Comparison]:
    """All conditions in which both arms were measured on a common item."""
    out = []
    for condition, arms in by_condition(damages.arms).items():
        if len(arms) < 2:
            continue
        shared = any(draws_shared(policies, condition.policy_id, arm) for arm in arms)
        for phenomenon in damages.phenomena(condition.task):
            for measure in MEASURES[condition.task]:
                moments = paired_moments(
                    damages,
                    arms["angular"],
                    arms["magnitude"],
                    measure,
                    shared_draws=shared,
                    phenomenon=phenomenon,
                )
                if moments is not None:
                    good = usable.get(condition, True)
                    out.append(Comparison(condition, measure, phenomenon, moments, good, shared))
    return out


def contrast_entries(experiment: str, compared: Iterable[Comparison]) -> list[dict[str, object]]:
    """The `contrasts` of the summary: a difference and a ratio (angular / magnitude) per comparison.

    `p_holm`: two-sided, Holm over the usable deltas (times blocks) of the series; `ci_simultaneous`: Bonferroni over
    the same. Both are null where the delta is not usable. `defined` is false for a ratio whose denominator is not
    above 0.
    """
    every = list(compared)
    families: dict[tuple[object, ...], list[Comparison]] = {}
    for one in every:
        if one.usable:
            families.setdefault(one.series, []).append(one)
    adjusted = {
        id(one): p
        for members in families.values()
        for one, p in zip(members, holm([m.difference.p_two_sided() for m in members]), strict=True)
    }
    out = []
    for one in every:
        size = len(families[one.series]) if one.usable else None
        out.append(_difference(experiment, one, size, adjusted.get(id(one))))
        out.append(_ratio(experiment, one, size))
    return out


def _named(experiment: str, one: Comparison, kind: str) -> dict[str, object]:
    named: dict[str, object] = {"experiment": experiment, "task": one.condition.task, "measure": one.measure}
    return {**named, **describe(one.condition, one.phenomenon), "kind": kind}


def _difference(experiment: str, one: Comparison, size: int | None, p_holm: float | None) -> dict[str, object]:
    estimate = one.difference
    interval = estimate.interval()
    entry = {
        **_named(experiment, one, "difference"),
        "value": estimate.value,
        "ci95": as_list(interval),
        "ci_simultaneous": as_list(estimate.interval(bonferroni_level(0.95, size))) if size else None,
        "p_holm": p_holm,
        "n_items": one.moments.n_items,
        "n_clusters": one.moments.n_clusters,
        "defined": estimate.value is not None,
    }
    _explain(entry, estimate.why if interval is None else None, size)
    a, m = SIGN[one.measure]
    sums = one.moments.sums
    if interval is not None and sums is not None and one.moments.weights is not None and _resampled(one):
        entry["ci95_bca"] = as_list(bca(a * sums[ANGULAR] + m * sums[MAGNITUDE], one.moments.weights))
    return entry


def _ratio(experiment: str, one: Comparison, size: int | None) -> dict[str, object]:
    value, why = ratio(one.moments)
    entry = {
        **_named(experiment, one, "ratio"),
        "value": value,
        "ci95": None,
        "ci_simultaneous": None,
        "n_items": one.moments.n_items,
        "n_clusters": one.moments.n_clusters,
        "defined": value is not None,
    }
    if value is not None:
        interval, why = ratio_interval(one.moments)
        entry["ci95"] = as_list(interval)
        simultaneous, unbounded = ratio_interval(one.moments, bonferroni_level(0.95, size)) if size else (None, None)
        entry["ci_simultaneous"] = as_list(simultaneous)
        why = why or unbounded
        if interval is not None and one.moments.sums is not None and _resampled(one):
            entry["ci95_bca"] = as_list(bca(one.moments.sums[ANGULAR], one.moments.sums[MAGNITUDE]))
    _explain(entry, why, size)
    return entry


def _resampled(one: Comparison) -> bool:
    """Whether the bootstrap over items is a valid cross-check: not where items share draws; overall entries only."""
    return not one.shared_draws and one.phenomenon is None


def _explain(entry: dict[str, object], why: str | None, size: int | None) -> None:
    reasons = [reason for reason in (why, None if size else UNUSABLE) if reason]
    if reasons:
        entry["why"] = "; ".join(reasons)
