"""The tables of probing: encoding against computation, scores with their controls, what a perturbation takes."""

from polarlens.perturbation.policy import ARMS
from polarlens.report.grid import Form, Table, in_nats, in_points, p_value
from polarlens.report.numbers import NONE
from polarlens.report.probes import (
    POOLING,
    REPRESENTATIONS,
    TARGETS,
    alone,
    at,
    block_of,
    find,
    noise_shown,
    probed_blocks,
    score_contrasts,
    scores,
    unit,
)
from polarlens.report.series import Cell
from polarlens.report.shown import Summary

EMBEDDINGS = "embeddings"
_NUMBERS = {
    "gain": "gain over confounds, R2",
    "gain_upos": "gain over confounds and part of speech, R2",
    "r2": "R2 alone",
    "spearman": "Spearman",
}
# target -> metric -> heading; what is shown of each target
COLUMNS = {
    "upos": {"accuracy": "accuracy, points", "selectivity": "selectivity, points"},
    "depth": _NUMBERS,
    "arc_length": _NUMBERS,
}
PER_BLOCK = (("upos", "accuracy", "part of speech, points"), ("depth", "gain", "depth, gain in R2"))


def probing_tables(summary: Summary) -> list[Table]:
    """Encoding against computation first, then its tests, the scores and the drops; empty where nothing was probed."""
    found = [_against(summary), _tests(summary), *(_scores(summary, target) for target in COLUMNS), *_drops(summary)]
    return [table for table in found if table.rows]


def _against(summary: Summary) -> Table:
    """One line per block: what is read from direction and norm, and what either arm costs at that block alone."""
    damage, clean = alone(summary), scores(summary)
    noise = noise_shown(damage)
    delta = f"; damages at delta {damage[0].condition.delta:g}" if damage else ""
    under = f", {noise} noise" if noise else ""
    read = [f"{label}: {name}" for _, _, label in PER_BLOCK for name in ("norm", "direction")]
    used = [f"{label}: {arm}" for label in ("loss, nats per token", "minimal pairs, points") for arm in ARMS]
    title = f"Encoding against computation, pooling {POOLING}{delta}{under}"
    table = Table(title, ["block", *read, *used])
    for block in sorted({*probed_blocks(summary), *map(block_of, damage)}):
        row = [_block(block)]
        for target, metric, _ in PER_BLOCK:
            for name in ("norm", "direction"):
                cell = find(clean, block=block, representation=name, target=target, metric=metric, pooling=POOLING)
                row.append(table.number(cell, form=_form(metric)))
        for task, form in (("loss", in_nats), ("pairs", in_points)):
            here = {
                one.what: one.source
                for one in at(damage, task, noise if task == "pairs" else None)
                if block_of(one) == block
            }
            row += [table.number(here.get(arm), form=form) for arm in ARMS]
        table.rows.append(row)
    return table


def _tests(summary: Summary) -> Table:
    """direction - norm by block, p adjusted over the blocks of one column."""
    found = score_contrasts(summary)
    columns = (*PER_BLOCK, ("arc_length", "gain", "arc length, gain in R2"))
    head = [part for _, _, label in columns for part in (label, "p (Holm)")]
    table = Table(f"Direction − norm, pooling {POOLING}", ["block", *head])
    for block in sorted({one["block"] for one in found}):
        row = [_block(block)]
        for target, metric, _ in columns:
            one = find(found, block=block, target=target, metric=metric, pooling=POOLING)
            row += [table.number(one, "value", _form(metric)), p_value(one)]
        table.rows.append(row)
    return table


def _scores(summary: Summary, target: str) -> Table:
    """All representations at every block, then the baselines that see no state."""
    columns, found = COLUMNS[target], [one for one in scores(summary) if one["target"] == target]
    table = Table(f"{TARGETS[target]}, pooling {POOLING}", ["block", "given to the probe", *columns.values()])
    for block in sorted({one["block"] for one in found if "block" in one}):
        for name in REPRESENTATIONS:
            cells = [find(found, block=block, representation=name, pooling=POOLING, metric=m) for m in columns]
            if any(cells):
                row = [table.number(cell, form=_form(metric)) for cell, metric in zip(cells, columns, strict=True)]
                table.rows.append([_block(block), name, *row])
    for name in dict.fromkeys(one["representation"] for one in found if "block" not in one):
        cells = [find(found, block=None, representation=name, metric=metric) for metric in columns]
        row = [table.number(cell, form=_form(metric)) for cell, metric in zip(cells, columns, strict=True)]
        table.rows.append([NONE, name, *row])
    return table


def _drops(summary: Summary) -> list[Table]:
    """Clean score minus score after each arm, one table per target and perturbation."""
    found, tests = scores(summary, "drop"), score_contrasts(summary, "drop")
    out = []
    for where in dict.fromkeys((one["layers"], one["delta"]) for one in found):
        for target, columns in COLUMNS.items():
            metric = next(iter(columns))
            here = [one for one in found if _at(one, where, target, metric)]
            said = f"layers {where[0]} perturbed at delta {where[1]:g}"
            title = f"{TARGETS[target]}: drop in {columns[metric]}; {said}, pooling {POOLING}"
            table = Table(title, ["block", "given to the probe", *ARMS, "angular − magnitude", "p (Holm)"])
            for block in sorted({one["block"] for one in here}):
                for name in REPRESENTATIONS:
                    cells = [find(here, block=block, representation=name, after_arm=arm) for arm in ARMS]
                    if not any(cells):
                        continue
                    test = find(
                        [one for one in tests if _at(one, where, target, metric)], block=block, representation=name
                    )
                    row = [table.number(cell, form=_form(metric)) for cell in cells]
                    row += [table.number(test, "value", _form(metric)), p_value(test)]
                    table.rows.append([_block(block), name, *row])
            out.append(table)
    return out


def _at(one: Cell, where: tuple[str, float], target: str, metric: str) -> bool:
    probe = (one["target"], one["metric"], one.get("pooling"))
    return (one["layers"], one["delta"]) == where and probe == (target, metric, POOLING)


def _form(metric: str) -> Form:
    return in_points if unit(metric) == "points" else in_nats


def _block(block: int) -> str:
    return EMBEDDINGS if block < 0 else str(block)
