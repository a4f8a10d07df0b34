"""Repair as an experiment: every repair that the model allows, at one delta, with the draws of the unrepaired run."""

from collections import defaultdict
from collections.abc import Sequence as Many
from typing import Any

import numpy as np

from polarlens.engine.batching import Batch
from polarlens.engine.conditions import Condition
from polarlens.engine.engine import Engine
from polarlens.engine.fitting import fitting
from polarlens.engine.outcome import Outcome
from polarlens.engine.repair import REPAIRS, Repair, clean_activations, default_layers, planned, repaired
from polarlens.errors import SiteError, UsageError
from polarlens.protocol.as_rows import clean_rows, described, outcome_rows
from polarlens.protocol.bench import Bench
from polarlens.protocol.checks import Distances
from polarlens.protocol.config import grid
from polarlens.protocol.layers import format_layers, parse_layers
from polarlens.protocol.plan import Asked, Unit, Wanted, full_cross
from polarlens.protocol.prepared import Prepared
from polarlens.protocol.presets import POLICIES
from polarlens.protocol.progress import Advance
from polarlens.statistics.order import reference_delta

Site = tuple[str, ...]
"""A repair's name and its layers, as text; nothing for the run without a repair."""


def wanted(prepared: Prepared) -> list[Wanted]:
    """Every repair in both arms at the reference delta, beside the unrepaired run, for every task with data."""
    config, out = prepared.config, []
    plans, _ = _plans(prepared)
    for task in prepared.tasks:
        delta = reference_delta(grid(config, task.task), config.delta_mode)
        where = (config.positions or ("all",))[:1]
        conditions = full_cross(POLICIES[config.preset][task.task], where, [delta], range(config.seeds))
        for n, (perturbed, repairs) in enumerate(plans.items()):
            sites = [(one.name, format_layers(one.layers)) for one in repairs]
            asked = conditions | {Asked(one.condition, site) for one in conditions for site in sites}
            part = format_layers(perturbed)
            one = Wanted("repair", task.task, (perturbed,), task.keys, asked, control=False, clean=n == 0, part=part)
            out.append(one)
    return out


def skipped(prepared: Prepared) -> list[dict[str, str]]:
    """Repairs that were not asked for by name and that this model, or these layers, do not allow."""
    return [{"experiment": "repair", "what": name, "why": why} for name, why in _plans(prepared)[1].items()]


def _plans(prepared: Prepared) -> tuple[dict[tuple[int, ...], list[Repair]], dict[str, str]]:
    """The repairs to run where some layers are perturbed, and why others, by name, are not.

    Raises UsageError and SiteError for what was asked for and can be had under none of the perturbed layers.
    """
    config, anatomy = prepared.config, prepared.lm.anatomy
    found: dict[tuple[int, ...], list[Repair]] = {perturbed: [] for perturbed in prepared.groups}
    refused: dict[str, str] = {}
    for name in config.repair or tuple(REPAIRS):
        errors: dict[tuple[int, ...], UsageError | SiteError] = {}
        for perturbed in prepared.groups:
            try:
                plans = [planned(name, layers, anatomy, perturbed) for layers in _layer_groups(prepared, perturbed)]
                # The final norm has no layers, so that one plan stands for all.
                found[perturbed] += {(one.name, one.layers): one for one in plans}.values()
            except (SiteError, UsageError) as error:
                errors[perturbed] = error
        if not errors:
            continue
        first, nowhere = next(iter(errors.values())), len(errors) == len(prepared.groups)
        if nowhere and (config.repair or (config.repair_layers and isinstance(first, UsageError))):
            raise first
        where = "" if nowhere else f" (with layers {'; '.join(map(format_layers, errors))} perturbed)"
        refused[name] = first.what + where
    return {perturbed: repairs for perturbed, repairs in found.items() if repairs}, refused


def _layer_groups(prepared: Prepared, perturbed: tuple[int, ...]) -> Many[tuple[int, ...]]:
    asked, n_layers = prepared.config.repair_layers, prepared.lm.n_layers
    if asked is None:
        return [default_layers(perturbed, n_layers)]
    groups = parse_layers(asked, n_layers)
    return [group for group in groups if group[0] > perturbed[0]] or [()] if asked == "each" else groups


def rows(bench: Bench, unit: Unit, advance: Advance) -> list[dict[str, Any]]:
    """Rows of one unit: the unrepaired run with `repair` null, and every repair."""
    return rows_with_repairs(bench, unit, bench.engine(unit, POLICIES[bench.config.preset][unit.task]), advance)


def rows_with_repairs(bench: Bench, unit: Unit, engine: Engine, advance: Advance) -> list[dict[str, Any]]:
    """Rows of one unit whose passes are asked for with or without a repair, run by `engine`."""
    distances = Distances()
    out: list[dict[str, Any]] = []
    for batch in bench.batches(unit):
        for part, done in fitting(batch, bench.batch_tokens, lambda b, n: _run(engine, bench, unit, b, n)):
            clean, outcomes = done
            tokens = int(part.mask.sum())
            base = bench.base(unit)
            if unit.work.clean:
                out += clean_rows(part, clean, base)
            for condition, site, outcome in outcomes:
                named = {"repair": site[0], "repair_layers": site[1] or None} if site else {}
                out += outcome_rows(part, outcome, base | described(condition) | named)
                distances.add(condition, outcome.realised)
            advance(tokens * (1 + len(outcomes)))
    distances.check(engine.protocol, allow_mismatch=bench.allow_mismatch)
    return out


def _run(
    engine: Engine, bench: Bench, unit: Unit, batch: Batch, tokens: int
) -> tuple[np.ndarray, list[tuple[Condition, Site, Outcome]]]:
    """Clean sums per sequence, and the outcome of every pass that the unit asks for."""
    sites: dict[Condition, set[Site]] = defaultdict(set)
    for asked in unit.in_order:
        sites[asked.condition].add(asked.more)
    alike: dict[tuple[Site, ...], list[Condition]] = defaultdict(list)
    for condition, of in sites.items():
        alike[tuple(sorted(of))].append(condition)
    anatomy, n_layers = bench.prepared.lm.anatomy, bench.prepared.lm.n_layers
    plans: dict[Site, Repair | None] = {
        site: planned(site[0], _layers(site[1], n_layers), anatomy, unit.layers) if site else None
        for together in alike
        for site in together
    }
    clean, kept = clean_activations(engine, batch, [plan for plan in plans.values() if plan])
    outcomes = []
    for together, conditions in alike.items():
        names = {plans[site]: site for site in together}
        these = [plan for plan in names if plan]
        for condition, repair, outcome in repaired(engine, batch, clean, kept, conditions, these, tokens):
            if repair in names:
                outcomes.append((condition, names[repair], outcome))
    return batch.sum_rows(clean.nll).numpy(), outcomes


def _layers(text: str, n_layers: int) -> tuple[int, ...]:
    return parse_layers(text, n_layers)[0] if text else ()
