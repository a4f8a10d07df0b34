"""What a reader should know before trusting the numbers: warnings drawn from the rows."""

from collections.abc import Mapping, Sequence

import numpy as np

from polarlens.statistics.contrasts import Comparison
from polarlens.statistics.damage import ArmDamage, Damages
from polarlens.statistics.estimates import Policies
from polarlens.statistics.intervals import Interval
from polarlens.statistics.ratio import ratio_interval

INFEASIBLE_SHARE = 0.01


def notices(measured: Damages, policies: Policies) -> list[str]:
    """Warnings about rows left out, tokens left clean, controls that are not zero and pairs of unequal length."""
    found = []
    if measured.not_finite:
        found.append(f"{measured.not_finite} rows hold a number that is missing or not finite and were left out")
    if measured.without_clean:
        found.append(f"{measured.without_clean} rows have no clean row of their item and were left out")
    found += _infeasible(measured, policies)
    if saturated := [arm for arm in measured.arms if arm.saturated_share > 0]:
        worst = max(saturated, key=lambda arm: arm.saturated_share)
        found.append(
            f"up to {worst.saturated_share:.1%} of the rotated rows (policy {worst.condition.policy_id}, delta "
            f"{worst.condition.delta:g}) fall short of the distance asked: the scale of the plane hit its bound"
        )
    off = [control for control in measured.controls if any(_not_zero(v) for v in control.values.values())]
    if off:
        named = ", ".join(f"{control.condition.task} {control.arm}" for control in off)
        found.append(f"the control at delta = 0 is not exactly the clean run: {named}")
    pairs = measured.items[measured.items["task"] == "pairs"]
    unequal = int(pairs["unequal"].sum())
    if unequal:
        share = unequal / len(pairs)
        found.append(f"{unequal} of {len(pairs)} pairs ({share:.1%}) have members of unequal token counts")
    return found


def apart_without_sinks(compared: Sequence[Comparison], loss_measure: str) -> list[str]:
    """A warning per task, policy and contrast whose intervals under `all` and `no-sinks` do not overlap somewhere."""
    found: dict[str, list[str]] = {}
    kept = [one for one in compared if one.phenomenon is None and one.measure in (loss_measure, "accuracy")]
    without = {_place(one): one for one in kept if one.condition.positions == "no-sinks"}
    for one in kept:
        other = without.get(_place(one))
        if one.condition.positions != "all" or other is None:
            continue
        for kind, (a, b) in _intervals(one, other).items():
            if a is not None and b is not None and (a[1] < b[0] or b[1] < a[0]):
                c = one.condition
                said = f"{c.delta:g} ([{a[0]:.3g}, {a[1]:.3g}] and [{b[0]:.3g}, {b[1]:.3g}], layers {c.layers})"
                found.setdefault(f"{c.task}, policy {c.policy_id}: the {kind} of the arms", []).append(said)
    return [
        f"{what} differs between positions all and no-sinks at delta {', '.join(said)}: a few sinks decide it"
        for what, said in found.items()
    ]


def _place(one: Comparison) -> tuple[object, ...]:
    c = one.condition
    return (c.task, one.measure, c.policy_id, c.layers, c.delta)


def _intervals(one: Comparison, other: Comparison) -> dict[str, tuple[Interval | None, Interval | None]]:
    found = {"difference": (one.difference.interval(), other.difference.interval())}
    if one.condition.task == "loss":
        found["ratio"] = (ratio_interval(one.moments)[0], ratio_interval(other.moments)[0])
    return found


def _infeasible(measured: Damages, policies: Policies) -> list[str]:
    """One warning per task, positions and policy that names the deltas above 1 %."""
    groups: dict[tuple[str, str | None, str | None], list[ArmDamage]] = {}
    for arm in (*measured.arms, *measured.unmoved):
        if arm.infeasible_share is not None and arm.infeasible_share > INFEASIBLE_SHARE:
            c = arm.condition
            groups.setdefault((c.task, c.positions, c.policy_id), []).append(arm)
    found = []
    for (task, positions, policy_id), arms in groups.items():
        deltas = ", ".join(f"{delta:g}" for delta in sorted({arm.condition.delta for arm in arms}))
        worst = max(arm.infeasible_share or 0.0 for arm in arms)
        done = "perturbed all the same" if _applied(policies, policy_id) else "left clean"
        found.append(
            f"{task}, positions {positions}, policy {policy_id}: up to {worst:.1%} of the eligible tokens have a norm "
            f"no larger than the distance asked at delta {deltas} and were {done}"
        )
    return found


def _applied(policies: Policies, policy_id: str | None) -> bool:
    level = policies.get(policy_id or "", {}).get("infeasible")
    return "apply" in (level.values() if isinstance(level, Mapping) else (level,))


def _not_zero(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> bool:
    return bool((np.nan_to_num(values) != 0).any())
