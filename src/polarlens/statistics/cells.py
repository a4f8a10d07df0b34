"""The `cells` of the summary: the damage of each arm under each condition, with its intervals."""

from collections.abc import Mapping

from polarlens.statistics.bootstrap import bca
from polarlens.statistics.damage import MEASURES, ArmDamage, Condition, Damages
from polarlens.statistics.estimates import Policies, arm_moments, draws_shared
from polarlens.statistics.floors import family, family_sizes
from polarlens.statistics.intervals import as_list
from polarlens.statistics.multiplicity import bonferroni_level

UNMOVED = "no token could be moved this far: every eligible one has a norm no larger than the distance asked"
CONTROL = "the control at delta = 0 is exactly the clean run: no estimate, no interval"


def cell_entries(
    experiment: str, damages: Damages, policies: Policies, usable: Mapping[Condition, bool]
) -> list[dict[str, object]]:
    """One entry per condition, arm, measure and phenomenon, the controls first.

    `mean` and intervals are damages: nats (per token for nll and kl) and points. `ci_simultaneous` is Bonferroni over
    the usable deltas (times blocks); an entry without `ci95` says `why`. `ci95_bca` is the bootstrap cross-check over
    items, left out where items share draws. A control that is exactly zero has mean 0 and no interval.
    """
    sizes = family_sizes(usable)
    out: list[dict[str, object]] = []
    for arm in (*damages.controls, *damages.arms):
        for phenomenon in damages.phenomena(arm.condition.task):
            for measure in MEASURES[arm.condition.task]:
                size = sizes[family(arm.condition)] if usable.get(arm.condition) else None
                entry = _entry(damages, arm, measure, phenomenon, policies, size)
                if entry is not None:
                    out.append({"experiment": experiment, **entry})
    out.extend(
        {"experiment": experiment, **_nothing(arm, measure)}
        for arm in damages.unmoved
        for measure in MEASURES[arm.condition.task]
    )
    return out


def describe(condition: Condition, phenomenon: str | None) -> dict[str, object]:
    """The keys that name a condition in the summary; `phenomenon` only where the entry is about one."""
    named: dict[str, object] = {
        "delta": condition.delta,
        "layers": condition.layers,
        "positions": condition.positions,
        "policy_id": condition.policy_id,
    }
    return named if phenomenon is None else {**named, "phenomenon": phenomenon}


def _nothing(arm: ArmDamage, measure: str) -> dict[str, object]:
    return {
        "task": arm.condition.task,
        "arm": arm.arm,
        "measure": measure,
        **describe(arm.condition, None),
        "mean": None,
        "ci95": None,
        "ci_simultaneous": None,
        "n_items": len(arm.unit),
        "n_seeds": len(arm.seeds),
        "infeasible_share": arm.infeasible_share,
        "realised_delta_mean": None,
        "why": UNMOVED,
    }


def _entry(
    damages: Damages, arm: ArmDamage, measure: str, phenomenon: str | None, policies: Policies, size: int | None
) -> dict[str, object] | None:
    shared = draws_shared(policies, arm.condition.policy_id, arm.arm) and arm.condition.delta > 0
    moments = arm_moments(damages, arm, measure, shared_draws=shared, phenomenon=phenomenon)
    if moments is None:
        return None
    estimate = moments.linear(1.0)
    exact = arm.condition.delta == 0 and moments.scale is not None and not moments.scale.any()
    interval = None if exact else estimate.interval()
    entry: dict[str, object] = {
        "task": arm.condition.task,
        "arm": arm.arm,
        "measure": measure,
        **describe(arm.condition, phenomenon),
        "mean": estimate.value,
        "ci95": as_list(interval),
        "ci_simultaneous": as_list(estimate.interval(bonferroni_level(0.95, size))) if size else None,
        "n_items": moments.n_items,
        "n_clusters": moments.n_clusters,
        "n_seeds": len(arm.seeds),
        "infeasible_share": arm.infeasible_share,
        "realised_delta_mean": arm.realised_delta_mean,
    }
    if interval is None:
        entry["why"] = CONTROL if exact else estimate.why
    elif phenomenon is None and not shared and moments.sums is not None and moments.weights is not None:
        entry["ci95_bca"] = as_list(bca(moments.sums[0], moments.weights))
    return entry
