"""The tables of probing: encoding beside computation, all representations, and what a perturbation takes."""

from collections.abc import Callable, Sequence
from typing import Any

from polarlens.report.encoding import (
    COMPARED,
    READ,
    REPRESENTATIONS,
    Cell,
    Read,
    block_cells,
    clean,
    only,
    probe_cells,
    probe_contrasts,
)
from polarlens.report.experiment_tables import Table
from polarlens.report.numbers import NONE, estimate, probability
from polarlens.report.shown import Summary
from polarlens.statistics.probing import CLAIM_POOLING

ARMS = ("magnitude", "angular")
BESIDE = (("upos", "accuracy"), ("depth", "gain"))


def encoding_table(summary: Summary) -> list[Table]:
    """One line per block: what probes read of norm and direction, and what moving either there costs."""
    cells = probe_cells(summary)
    if not cells:
        return []
    read = [one for one in READ if (one.target, one.metric) in BESIDE]
    alone = {task: block_cells(summary, task) for task in ("loss", "pairs")}
    alone = {task: found for task, found in alone.items() if found}
    costs = {"loss": "loss damage (nats per token)", "pairs": "accuracy damage (points)"}
    head = ["block", *(f"{one.title} ({one.unit}): {name}" for one in read for name in COMPARED)]
    head += [f"{costs[task]}: {arm}" for task in alone for arm in ARMS]
    table = Table("Encoding beside computation", head)
    for block in _blocks(cells):
        row = [str(block)]
        for one in read:
            found = clean(cells, one)
            row += [_number(table, only(found, block=block, representation=name), one) for name in COMPARED]
        for task, damages in alone.items():
            at = [only(damages, layers=str(block), arm=arm) for arm in ARMS]
            unit = "points" if task == "pairs" else "nats"
            row += [table.number(cell, form=_in(unit)) for cell in at]
        table.rows.append(row)
    return [table]


def score_tables(summary: Summary) -> list[Table]:
    """Scores of every representation by block, a table per target and metric, with the baselines of no state."""
    cells, out = probe_cells(summary), []
    between = probe_contrasts(summary, "score")
    for read in READ:
        found = clean(cells, read)
        if not found:
            continue
        table = Table(
            f"{read.title} ({read.unit})", ["block", *REPRESENTATIONS, "direction − norm", "p (Holm)"]
        )  # fmt: skip
        named = {"target": read.target, "metric": read.metric, "pooling": CLAIM_POOLING}
        for block in _blocks(found):
            difference = only(between, block=block, **named)
            scores = [_number(table, only(found, block=block, representation=name), read) for name in REPRESENTATIONS]
            table.rows.append([str(block), *scores, _number(table, difference, read, "value"), _p(difference)])
        for name in ("majority", "confounds", "confounds+upos"):
            base = only(cells, representation=name, target=read.target, metric=read.metric)
            if base is not None:
                table.rows.append([name, *[NONE] * len(REPRESENTATIONS), _number(table, base, read), NONE])
        out.append(table)
    return out


def drop_tables(summary: Summary) -> list[Table]:
    """What each arm takes from a probe, per perturbed layers: clean score less the score after the perturbation."""
    drops, contrasts, out = probe_cells(summary, "drop"), probe_contrasts(summary, "drop"), []
    for layers, delta in dict.fromkeys((one["layers"], one["delta"]) for one in drops):
        here = [one for one in drops if (one["layers"], one["delta"], one["pooling"]) == (layers, delta, CLAIM_POOLING)]
        table = Table(
            f"What probes lose after a perturbation of layers {layers}, delta {delta:g}",
            ["what is read", "representation", "block", *ARMS, "angular − magnitude", "p (Holm)"],
        )
        for read in READ:
            for name in REPRESENTATIONS:
                named = {"target": read.target, "metric": read.metric, "representation": name}
                for block in _blocks([one for one in here if named.items() <= one.items()]):
                    at = {**named, "block": block}
                    arms = [_number(table, only(here, after_arm=arm, **at), read) for arm in ARMS]
                    where = {"layers": layers, "delta": delta, "pooling": CLAIM_POOLING}
                    difference = only(contrasts, **where, **at)
                    contrast = [_number(table, difference, read, "value"), _p(difference)]
                    table.rows.append([f"{read.title} ({read.unit})", name, str(block), *arms, *contrast])
        out.append(table)
    return out


def _blocks(cells: Sequence[Cell]) -> list[int]:
    return sorted({one["block"] for one in cells if one.get("block") is not None})


def _number(table: Table, cell: Cell | None, read: Read, key: str = "mean") -> str:
    return table.number(cell, key, _in(read.unit))


def _in(unit: str) -> Callable[[Any, Any], str]:
    return lambda value, ci95: estimate(value, ci95, unit)


def _p(one: Cell | None) -> str:
    return NONE if one is None else probability(one.get("p_holm"))
