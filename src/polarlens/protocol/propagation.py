"""Propagation as an experiment: one injection at one layer, and every later block compared with the clean run."""

from collections.abc import Iterator
from typing import Any

from polarlens.engine.batching import Batch
from polarlens.engine.conditions import Condition
from polarlens.engine.fitting import fitting
from polarlens.engine.propagation import AtBlock, Travel, propagated
from polarlens.protocol.as_rows import described, distances_of, item_columns, with_rows
from polarlens.protocol.bench import Bench
from polarlens.protocol.checks import Distances
from polarlens.protocol.config import grid
from polarlens.protocol.plan import Unit, Wanted, full_cross
from polarlens.protocol.prepared import Prepared
from polarlens.protocol.presets import POLICIES
from polarlens.protocol.progress import Advance
from polarlens.rows.schema import NORM_ROLES
from polarlens.statistics.order import reference_delta

_MEASURES = ("distance", "relative", "radial", "angular", "cosine", "attention_entropy", "attention_js")


def wanted(prepared: Prepared) -> list[Wanted]:
    """Both arms at the reference delta, at each perturbed layer that has another above it, on the texts."""
    config, last = prepared.config, prepared.lm.n_layers - 1
    layers = sorted({layer for group in prepared.groups for layer in group if layer < last})
    out = []
    for task in prepared.tasks:
        if task.task == "loss" and layers:
            delta = reference_delta(grid(config, "loss"), config.delta_mode)
            where = (config.positions or ("all",))[:1]
            asked = full_cross(POLICIES[config.preset]["loss"], where, [delta], range(config.seeds))
            groups = tuple((layer,) for layer in layers)
            out.append(Wanted("propagation", "loss", groups, task.keys, asked, control=False, clean=False))
    return out


def skipped(prepared: Prepared) -> list[dict[str, str]]:
    """What cannot be followed, and why."""
    out = []
    if all(task.task != "loss" for task in prepared.tasks):
        out.append(("propagation", "it follows texts, and --text was not given"))
    if all(layer == prepared.lm.n_layers - 1 for group in prepared.groups for layer in group):
        out.append(("propagation", "no block lies above the perturbed one"))
    elif prepared.weights_refused is not None:
        out.append(("attention weights", prepared.weights_refused))
    return [{"experiment": "propagation", "what": what, "why": why} for what, why in out]


def rows(bench: Bench, unit: Unit, advance: Advance) -> list[dict[str, Any]]:
    """Rows of one unit: one per item, condition and block from the perturbed one on."""
    engine = bench.engine(unit, POLICIES[bench.config.preset][unit.task])
    attention = bench.prepared.weights_refused is None
    conditions = [asked.condition for asked in unit.in_order]
    distances = Distances()
    out: list[dict[str, Any]] = []
    for batch in bench.batches(unit):

        def run(part: Batch, tokens: int) -> list[tuple[Condition, Travel]]:
            return list(propagated(engine, part, conditions, tokens, attention=attention))

        for part, found in fitting(batch, bench.batch_tokens, run):
            for condition, travel in found:
                out += _travel_rows(part, travel, bench.base(unit) | described(condition))
                distances.add(condition, travel.realised)
            advance(int(part.mask.sum()) * (1 + len(found)))
    distances.check(engine.protocol, allow_mismatch=bench.allow_mismatch)
    return out


def _travel_rows(batch: Batch, travel: Travel, base: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for encoded, where in with_rows(batch):
        row = where.start  # a text is one sequence
        shared = {
            **base,
            **item_columns(encoded),
            "eligible": int(travel.eligible[row]),
            "infeasible": int(travel.infeasible[row]),
            **distances_of(travel.realised, where),
        }
        for at in travel.blocks:
            yield {**shared, "block": at.block, **_at_block(at, row)}


def _at_block(at: AtBlock, row: int) -> dict[str, float | None]:
    measures = {name: getattr(at, name) for name in _MEASURES}
    statistics = {role: at.norm_statistic.get(role) for role in NORM_ROLES}
    first = next((values for values in statistics.values() if values is not None), None)
    found = {**measures, **statistics, "norm_statistic": first}
    return {name: None if values is None else float(values[row]) for name, values in found.items()}
