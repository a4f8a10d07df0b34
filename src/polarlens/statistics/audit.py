"""Which findings survive a change of noise policy: a survival table, the effects of the factors, and plain words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from polarlens.perturbation.audit import CORNERS, AuditDesign, AuditPolicy
from polarlens.perturbation.policy import ARMS
from polarlens.statistics.audit_words import VERDICT, in_words
from polarlens.statistics.claims import Setting, claim_entries
from polarlens.statistics.contrasts import Comparison, comparisons
from polarlens.statistics.damage import Damages, damages
from polarlens.statistics.effects import Arms, accuracy_contrast, log_ratio, stacked
from polarlens.statistics.estimates import draws_shared
from polarlens.statistics.floors import clean_at_floor, usable_conditions
from polarlens.statistics.intervals import Estimate, as_list
from polarlens.statistics.kinds import DEFAULT_BANDS, Bands
from polarlens.statistics.multiplicity import holm
from polarlens.statistics.verdict import verdict

EXPERIMENT = "audit"
NO_REPAIR = "repair was not run under this policy"
MEASURES = {"log_ratio": "loss", "accuracy": "pairs"}
Recoveries = Mapping[str, Mapping[str, Mapping[str, object]]]  # corner -> claim id -> its entry in `claims`


@dataclass(frozen=True)
class Audit:
    """survival: claim, policy_id, value, ci95, status, why. effects: see `effect_entries`. text: one paragraph."""

    survival: list[dict[str, object]]
    effects: list[dict[str, object]]
    text: str


def audit(
    rows: pd.DataFrame,
    design: AuditDesign,
    *,
    model: str,
    delta_mode: str,
    loss_measure: str = "nll",
    unigram_nll: float | None = None,
    bands: Bands = DEFAULT_BANDS,
    recoveries: Recoveries | None = None,
) -> Audit:
    """Everything that the audit says.

    rows: clean rows of the items and the rows of every (policy, arm) in `design.runs`, in the columns of the sweep.
    recoveries: C3 and C4 under the two corners, as in `claims`; they are `not_run` where missing.

    Every policy is judged by itself, at one delta: statuses are not corrected for the number of policies.
    """
    measured = damages(with_borrowed(rows, design))
    policies = {one.id: one.policy.as_dict() for one in design.policies}
    usable = usable_conditions(measured, policies, unigram_nll)
    compared = comparisons(measured, policies, usable)
    floors = clean_at_floor(measured, unigram_nll)
    survival: list[dict[str, object]] = []
    for one in design.policies:
        setting = Setting(model, "audit", delta_mode, one.positions, loss_measure, policies, floors, bands)
        survival += _survival(one, [c for c in compared if c.condition.policy_id == one.id], setting, recoveries or {})
    effects = effect_entries(measured, design, loss_measure)
    return Audit(survival, effects, in_words(survival, effects))


def with_borrowed(rows: pd.DataFrame, design: AuditDesign) -> pd.DataFrame:
    """The rows of every policy under its own id: an arm that was run under another policy's id is copied."""
    clean = rows[rows["arm"] == "clean"]
    by_arm = dict(iter(rows.groupby(["task", "policy_id", "arm"], sort=False)))
    parts = [clean]
    for task, sources in design.source.items():
        for policy_id, arms in sources.items():
            for arm in ARMS:
                part = by_arm.get((task, arms[arm], arm))
                if part is not None:
                    parts.append(part.assign(policy_id=policy_id))
    return pd.concat(parts, ignore_index=True)


def _survival(
    one: AuditPolicy, compared: Sequence[Comparison], setting: Setting, recoveries: Recoveries
) -> list[dict[str, object]]:
    found = {entry["id"]: entry for entry in claim_entries(compared, setting)}
    entries: list[tuple[str, Mapping[str, object]]] = [(id_, found[id_]) for id_ in ("C1", "C2")]
    if one.id in CORNERS:
        missing = {"measured": None, "ci95": None, "status": "not_run", "why": NO_REPAIR}
        entries += [(id_, recoveries.get(one.id, {}).get(id_, missing)) for id_ in ("C3", "C4")]
    table = [
        {
            "claim": id_,
            "policy_id": one.id,
            "value": entry["measured"],
            "ci95": entry["ci95"],
            "status": entry["status"],
            "why": entry["why"],
        }
        for id_, entry in entries
    ]
    said = verdict(
        compared,
        positions=one.positions,
        loss_measure=setting.loss_measure,
        policies=setting.policies,
        clean_at_floor=setting.clean_at_floor,
        bands=setting.bands,
    )
    kind = {"value": None, "ci95": None, "status": said["kind"], "why": said["why"]}
    return [*table, {"claim": VERDICT, "policy_id": one.id, **kind}]


def effect_entries(measured: Damages, design: AuditDesign, loss_measure: str) -> list[dict[str, object]]:
    """Every policy against its corner on both measures, the largest first, then the interactions of the cross.

    `log_ratio`: change of log R, so that exp(value) multiplies the loss ratio; `accuracy`: change of drop_magnitude -
    drop_angular, points. `rank` orders the effects of a measure by size; p_holm corrects over them. A policy that
    repeats the rows of another in a task has no entry there.
    """
    arms: dict[tuple[str, str], Arms] = {}
    for arm in measured.arms:
        key = (arm.condition.task, arm.condition.policy_id or "")
        arms[key] = {**arms.get(key, {}), arm.arm: arm}
    out: list[dict[str, object]] = []
    for measure, task in MEASURES.items():
        estimates: list[tuple[dict[str, object], Estimate]] = []
        for one in design.policies:
            for kind, weights in _contrasts(one, design, task).items():
                estimate = _estimate(measured, design, arms, weights, measure, loss_measure)
                named = {"measure": measure, "kind": kind, "policy_id": one.id, "from": one.corner}
                estimates.append(({**named, "changes": dict(one.changes)}, estimate))
        out += _ranked(estimates)
    return out


def _contrasts(one: AuditPolicy, design: AuditDesign, task: str) -> dict[str, dict[str, float]]:
    """kind -> weights over policies: the effect against the corner, and the interaction of two factors."""
    source = design.source.get(task, {})
    repeats = any((s.policy_id, s.task) == (one.id, task) for s in design.skipped)
    if one.id == one.corner or one.id not in source or repeats:
        return {}
    found = {"effect": {one.id: 1.0, one.corner: -1.0}}
    if len(one.changes) > 1:
        ids = {frozenset(other.changes.items()): other.id for other in design.policies if other.corner == one.corner}
        single = [ids.get(frozenset([change])) for change in one.changes.items()]
        if all(name is not None and source[name] != source[one.corner] for name in single):
            parts = {str(name): -1.0 for name in single}
            found["interaction"] = {one.id: 1.0, **parts, one.corner: 1.0}
    return found


def _estimate(
    measured: Damages,
    design: AuditDesign,
    arms: Mapping[tuple[str, str], Arms],
    weights: Mapping[str, float],
    measure: str,
    loss_measure: str,
) -> Estimate:
    task = MEASURES[measure]
    chosen = [arms.get((task, policy_id), {}) for policy_id in weights]
    if any(len(policy) < len(ARMS) for policy in chosen):
        return Estimate(None, why="not measured")
    policies = {one.id: one.policy.as_dict() for one in design.policies}
    shared = any(draws_shared(policies, policy_id, arm) for policy_id in weights for arm in ARMS)
    of = loss_measure if task == "loss" else "accuracy"
    m = stacked(measured, chosen, of, shared_draws=shared)
    if m is None:
        return Estimate(None, why="no items in common")
    statistic = log_ratio if measure == "log_ratio" else accuracy_contrast
    return statistic(m, list(weights.values()))


def _ranked(estimates: Sequence[tuple[dict[str, object], Estimate]]) -> list[dict[str, object]]:
    """Entries with Holm's p and a rank by size among the effects, in that order; interactions after them."""
    out: list[dict[str, object]] = []
    for kind in ("effect", "interaction"):
        these = [(named, estimate) for named, estimate in estimates if named["kind"] == kind]
        adjusted = holm([estimate.p_two_sided() for _, estimate in these])
        size = [-1.0 if estimate.value is None else abs(estimate.value) for _, estimate in these]
        order = [int(k) for k in np.argsort(-np.asarray(size), kind="stable")]
        for rank, k in enumerate(order, start=1):
            named, estimate = these[k]
            interval = estimate.interval()
            entry = {**named, "value": estimate.value, "ci95": as_list(interval), "p_holm": adjusted[k]}
            entry["rank"] = rank if kind == "effect" and estimate.value is not None else None
            out.append(entry if interval is not None else {**entry, "why": estimate.why})
    return out
