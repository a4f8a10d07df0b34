"""Rows of the repair experiment -> damages, recoveries, Shapley splits, and what C3 and C4 rest on."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from polarlens.perturbation.policy import ARMS
from polarlens.statistics.cells import cell_entries, describe
from polarlens.statistics.claims_given import Given
from polarlens.statistics.damage import ArmDamage, Condition, Damages, damages
from polarlens.statistics.entries import Entries
from polarlens.statistics.estimates import Policies, by_condition, draws_shared, joint_moments
from polarlens.statistics.intervals import Estimate, Moments, as_list
from polarlens.statistics.multiplicity import holm
from polarlens.statistics.recovery import Share, recovery, recovery_difference
from polarlens.statistics.shapley import PHI, Split, split

EXPERIMENT = "repair"
CLAIM_OF = {"attention": "C3", "norm": "C4"}
SPLIT = ("attention", "mlp", "attention+mlp")
PAIR_MEASURES = ("accuracy", "margin")

Site = tuple[str, str]
"""A repair's name and its layers, as text; the final norm has none."""


def repair_entries(rows: pd.DataFrame, policies: Policies, loss_measure: str) -> Entries:
    """Damage with and without each repair, recoveries, Shapley splits, and the arms' differences in them.

    Recoveries and splits are of `loss_measure` for texts, of accuracy and margin for pairs (key `of`). Recoveries are
    fractions; a split is in the unit of its measure, its shares are fractions.
    """
    out = Entries()
    rows = rows.assign(repair_layers=rows["repair_layers"].fillna(""))
    unrepaired = rows["repair"].isna()
    clean = rows[rows["arm"] == "clean"]
    without = damages(rows[unrepaired])
    repaired = {
        (str(name), str(layers)): damages(pd.concat([clean, part], ignore_index=True))
        for (name, layers), part in sorted(
            rows[~unrepaired].groupby(["repair", "repair_layers"], sort=True),
            key=lambda group: (group[0][0], blocks_of(str(group[0][1]))),
        )
    }
    out.cells += _labelled(cell_entries(EXPERIMENT, without, policies, {}), None)
    for site, measured in repaired.items():
        out.cells += _labelled(cell_entries(EXPERIMENT, measured, policies, {}), site)
    for condition, arms in by_condition(without.arms).items():
        under = {site: by_condition(measured.arms).get(condition, {}) for site, measured in repaired.items()}
        for of in PAIR_MEASURES if condition.task == "pairs" else (loss_measure,):
            _recoveries(out, without, condition, arms, under, of, policies, claimed=of == loss_measure)
            _splits(out, without, condition, arms, under, of, policies)
    _correct(out.contrasts)
    return out


def blocks_of(layers: str) -> list[int]:
    """The blocks that `8-10,12` names."""
    ends = [list(map(int, part.split("-"))) for part in layers.split(",") if part]
    return [block for end in ends for block in range(end[0], end[-1] + 1)]


def _labelled(entries: Sequence[dict[str, object]], site: Site | None) -> Iterator[dict[str, object]]:
    name, layers = site or (None, None)
    for entry in entries:
        yield {**entry, "repair": name, "repair_layers": layers or None}


def _recoveries(
    out: Entries,
    without: Damages,
    condition: Condition,
    arms: Mapping[str, ArmDamage],
    under: Mapping[Site, Mapping[str, ArmDamage]],
    of: str,
    policies: Policies,
    *,
    claimed: bool,
) -> None:
    shared = _shared(condition, policies)
    # A claim is about a path at all of the repaired layers, not about the one-layer profile beside it.
    widest = {name: max((s for s in under if s[0] == name), key=lambda s: len(blocks_of(s[1]))) for name, _ in under}
    for site, repaired in under.items():
        named = _named(condition, site, "recovery", of)
        for arm in ARMS:
            if arm in arms and arm in repaired:
                m = joint_moments(without, [repaired[arm], arms[arm]], of, shared_draws=shared)
                if m is not None:
                    out.cells.append(_cell(named, arms[arm], m, recovery(m)))
                    if claimed and site == widest[site[0]]:
                        out.recoveries.setdefault((site[0], arm, condition.delta), m)
        if all(arm in arms and arm in repaired for arm in ARMS):
            order = [repaired["angular"], arms["angular"], repaired["magnitude"], arms["magnitude"]]
            m = joint_moments(without, order, of, shared_draws=shared)
            if m is None:
                continue
            difference = recovery_difference(m)
            out.contrasts.append(_contrast(named, m, difference))
            if claimed and site[0] in CLAIM_OF and site == widest[site[0]]:
                given = Given(difference, delta=condition.delta, layers=condition.layers)
                out.given.setdefault(CLAIM_OF[site[0]], []).append(given)


def _splits(
    out: Entries,
    without: Damages,
    condition: Condition,
    arms: Mapping[str, ArmDamage],
    under: Mapping[Site, Mapping[str, ArmDamage]],
    of: str,
    policies: Policies,
) -> None:
    shared = _shared(condition, policies)
    for layers in [layers for name, layers in under if name == "attention+mlp"]:
        needed = [under.get((name, layers), {}) for name in SPLIT]
        both: list[ArmDamage] = []
        for arm in ARMS:
            if arm in arms and all(arm in one for one in needed):
                these = [arms[arm], *(one[arm] for one in needed)]
                both += these
                m = joint_moments(without, these, of, shared_draws=shared)
                if m is not None:
                    out.cells += _split_cells(condition, layers, of, arms[arm], m, split(m))
        if len(both) == len(ARMS) * (1 + len(SPLIT)):
            m = joint_moments(without, both, of, shared_draws=shared)
            if m is not None:
                for path, row in PHI.items():
                    # ARMS runs magnitude, angular: the difference is angular - magnitude
                    signs = {"magnitude": -1.0, "angular": 1.0}
                    coefficients = np.concatenate([signs[arm] * np.asarray(row) for arm in ARMS])
                    named = _named(condition, (path, layers), "shapley", of)
                    out.contrasts.append(_contrast(named, m, m.linear(*coefficients)))


def _split_cells(
    condition: Condition, layers: str, of: str, arm: ArmDamage, m: Moments, found: Split
) -> Iterator[dict[str, object]]:
    estimates = {
        **found.phi,
        "interaction": found.interaction,
        "attention+mlp": found.recovered,
        "out of reach": found.out_of_reach,
    }
    for name, estimate in estimates.items():
        shown = Share(estimate.value, estimate.interval(), estimate.why)
        yield _cell(_named(condition, (name, layers), "shapley", of), arm, m, shown)
    for name, share in found.share.items():
        yield _cell(_named(condition, (name, layers), "shapley_share", of), arm, m, share)


def _named(condition: Condition, site: Site, measure: str, of: str) -> dict[str, object]:
    named: dict[str, object] = {"experiment": EXPERIMENT, "task": condition.task, "measure": measure, "of": of}
    return {**named, **describe(condition, None), "repair": site[0], "repair_layers": site[1] or None}


def _cell(named: Mapping[str, object], arm: ArmDamage, m: Moments, found: Share) -> dict[str, object]:
    entry = {
        **named,
        "arm": arm.arm,
        "mean": found.value,
        "ci95": as_list(found.ci95),
        "ci_simultaneous": None,
        "n_items": m.n_items,
        "n_clusters": m.n_clusters,
        "n_seeds": len(arm.seeds),
        "infeasible_share": arm.infeasible_share,
        "realised_delta_mean": arm.realised_delta_mean,
    }
    return entry if found.ci95 is not None else {**entry, "why": found.why}


def _contrast(named: Mapping[str, object], m: Moments, estimate: Estimate) -> dict[str, object]:
    interval = estimate.interval()
    entry = {
        **named,
        "kind": "difference",
        "value": estimate.value,
        "ci95": as_list(interval),
        "ci_simultaneous": None,
        "p_holm": estimate.p_two_sided(),
        "n_items": m.n_items,
        "n_clusters": m.n_clusters,
        "defined": estimate.value is not None,
    }
    return entry if interval is not None else {**entry, "why": estimate.why}


def _correct(contrasts: Sequence[dict[str, object]]) -> None:
    """Holm over the deltas, perturbed and repaired layers of one repair, measure and policy."""
    families: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for one in contrasts:
        key = tuple(one[name] for name in ("task", "measure", "of", "repair", "policy_id", "positions"))
        families.setdefault(key, []).append(one)
    for members in families.values():
        for one, p in zip(members, holm([m["p_holm"] for m in members]), strict=True):  # type: ignore[misc]
            one["p_holm"] = p


def _shared(condition: Condition, policies: Policies) -> bool:
    return any(draws_shared(policies, condition.policy_id, arm) for arm in ARMS)
