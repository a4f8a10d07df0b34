"""What direction and magnitude encode beside what they carry: probes and single-block damages over the blocks."""

from typing import TYPE_CHECKING

from polarlens.report.encoding import COMPARED, READ, Cell, block_cells, clean, majority, probe_cells
from polarlens.report.figures.curves import curves
from polarlens.report.figures.style import ARMS, TITLES, point
from polarlens.report.numbers import points as in_points
from polarlens.report.shown import UNITS, Summary
from polarlens.statistics.probing import EXPERIMENT

if TYPE_CHECKING:
    import altair as alt

DRAWN = {("upos", "accuracy"): "Read: part of speech", ("depth", "gain"): "Read: parse depth over confounds"}
COMPUTED = {"loss": "loss damage", "pairs": "accuracy damage"}
_BLOCK = "block (−1: embeddings)"


def encoding_panels(summary: Summary) -> "dict[str, alt.LayerChart]":
    """Accuracy of parts of speech and gain of parse depth, then the damage of either arm at each block alone."""
    cells, guess = probe_cells(summary), majority(summary)
    found = {}
    for read in READ:
        title = DRAWN.get((read.target, read.metric))
        shown = [one for one in clean(cells, read) if one["representation"] in COMPARED and one["mean"] is not None]
        if title is None or not shown:
            continue
        level = guess["mean"] if guess and read.unit == "points" else 0.0
        below = f"line: most frequent class, {in_points(level)}" if level else "line: nothing beyond the confounds"
        found[title] = curves(
            [
                {**point(one["mean"], one["ci95"], read.unit), "arm": one["representation"], "block": one["block"]}
                for one in shown
            ],
            title=title,
            subtitle=[below, "95 % intervals over sentences"],
            x=_BLOCK,
            y=f"{read.metric} ({read.unit})",
            log=False,
            level=level,
            groups=COMPARED,
        )
    for task, what in COMPUTED.items():
        moved = [one for one in block_cells(summary, task) if one["mean"] is not None]
        if moved:
            title = f"Computed: {TITLES[task].lower()}"
            found[title] = curves(
                [
                    {**point(one["mean"], one["ci95"], UNITS[task]), "arm": one["arm"], "block": int(one["layers"])}
                    for one in moved
                ],
                title=title,
                subtitle=[f"one block moved, delta {moved[0]['delta']:g}", "95 % intervals"],
                x="perturbed block",
                y=f"{what} ({UNITS[task]})",
                log=False,
                groups=ARMS,
            )
    return found


def encoding_lines(summary: Summary) -> list[dict[str, object]]:
    """Every score and drop of the probes, both poolings, and every single-block damage."""
    return [_line(one) for one in summary["cells"] if one["experiment"] == EXPERIMENT]


def _line(cell: Cell) -> dict[str, object]:
    low, high = cell["ci95"] or (None, None)
    names = ("target", "metric", "representation", "pooling", "after_arm", "task", "phenomenon", "arm")
    probed = "representation" in cell
    return {
        "block": cell.get("block") if probed else int(cell["layers"]),
        "measure": cell["measure"],
        **{name: cell.get(name) for name in names},
        "perturbed": cell.get("layers"),
        "delta": cell.get("delta"),
        **{"mean": cell["mean"], "ci95_low": low, "ci95_high": high, "n_items": cell["n_items"]},
    }
