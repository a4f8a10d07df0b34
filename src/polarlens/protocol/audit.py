"""The audit as an experiment: the sweep at one delta under every policy of the design, repairs at its two corners."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from polarlens.engine.repair import default_layers, planned
from polarlens.errors import SiteError, UsageError
from polarlens.perturbation.audit import CORNERS, AuditDesign, audit_design, candidates
from polarlens.protocol.bench import Bench
from polarlens.protocol.config import grid
from polarlens.protocol.layers import format_layers
from polarlens.protocol.plan import Asked, Unit, Wanted, full_cross
from polarlens.protocol.prepared import Prepared
from polarlens.protocol.progress import Advance
from polarlens.protocol.repair import rows_with_repairs
from polarlens.statistics.order import reference_delta

MOST_SEEDS = 3
CORNER_REPAIRS = ("attention", "norm")  # those that C3 and C4 speak of
REFERRING = ("covariance", "data")  # planes that draw from clean states
ONE_SET = "the audit runs at one set of layers, not at each block"

design = cache(audit_design)


def wanted(prepared: Prepared) -> list[Wanted]:
    """Both arms at the reference delta under every policy of the design, with at most three seeds."""
    config = prepared.config
    if len(prepared.groups) != 1:
        return []
    (perturbed,) = prepared.groups
    found, out = _design(prepared), []
    for task in prepared.tasks:
        delta = reference_delta(grid(config, task.task), config.delta_mode)
        asked: set[Asked] = set()
        for one, arm in found.runs(task.task):
            both = full_cross({one.id: one.policy}, [one.positions], [delta], range(min(config.seeds, MOST_SEEDS)))
            asked |= {each for each in both if each.condition.arm == arm}
        sites = _sites(prepared)[0] if task.task == "loss" else []
        at_corners = [one.condition for one in asked if one.condition.policy_id in CORNERS]
        asked |= {Asked(condition, site) for condition in at_corners for site in sites}
        out.append(Wanted("audit", task.task, (perturbed,), task.keys, frozenset(asked), control=False))
    return out


def skipped(prepared: Prepared) -> list[dict[str, str]]:
    """Repairs that the model does not allow at the corners. What coincides depends on all that the folder holds."""
    if len(prepared.groups) != 1:
        return [{"experiment": "audit", "what": "audit", "why": ONE_SET}]
    refused = _sites(prepared)[1] if any(task.task == "loss" for task in prepared.tasks) else {}
    return [{"experiment": "audit", "what": f"repair {name}", "why": why} for name, why in refused.items()]


def design_of(wanted: Iterable[Wanted], delta_mode: str) -> AuditDesign | None:
    """The design of all that a folder asks of the audit, None where that is nothing."""
    asked = sorted((one for one in wanted if one.experiment == "audit"), key=lambda one: one.task)
    if not asked:
        return None
    (perturbed,) = asked[0].layers
    return design(delta_mode=delta_mode, n_layers=len(perturbed), tasks=tuple(one.task for one in asked))


def coincidences(found: AuditDesign) -> list[dict[str, str]]:
    """What is left out because it repeats another policy, as entries of `skipped`."""
    return [
        {
            "experiment": "audit",
            "what": one.policy_id if one.task is None else f"{one.policy_id}, task {one.task}",
            "why": f"the same as {one.same_as}: {one.why}",
        }
        for one in found.skipped
    ]


def refers(unit: Unit) -> bool:
    """Whether a unit draws from clean reference states."""
    if unit.experiment != "audit":
        return False
    referring = _referring()
    return any(asked.condition.policy_id in referring for asked in unit.work.asked)


def rows(bench: Bench, unit: Unit, advance: Advance) -> list[dict[str, Any]]:
    """Rows of one unit, in the columns of the repair."""
    policies = {one.id: one.policy for one in _design(bench.prepared).policies}
    engine = bench.engine(unit, policies, bench.prepared.references if refers(unit) else None)
    return rows_with_repairs(bench, unit, engine, advance)


@cache
def _referring() -> frozenset[str]:
    return frozenset(one.id for one in candidates() if one.policy.level("plane", "angular") in REFERRING)


def _design(prepared: Prepared) -> AuditDesign:
    tasks = tuple(sorted(task.task for task in prepared.tasks))
    return design(delta_mode=prepared.config.delta_mode, n_layers=len(prepared.groups[0]), tasks=tasks)


def _sites(prepared: Prepared) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """The corners' repairs with their layers, and those that are refused."""
    (perturbed,), lm = prepared.groups, prepared.lm
    found, refused = [], {}
    for name in CORNER_REPAIRS:
        try:
            one = planned(name, default_layers(perturbed, lm.n_layers), lm.anatomy, perturbed)
            found.append((name, format_layers(one.layers)))
        except (SiteError, UsageError) as error:
            refused[name] = error.what
    return found, refused
