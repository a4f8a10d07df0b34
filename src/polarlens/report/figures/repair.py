"""How much of the damage each repair takes back, per arm."""

from typing import TYPE_CHECKING

from polarlens.report.figures.dots import dots
from polarlens.report.figures.style import ARMS, point
from polarlens.report.numbers import share
from polarlens.report.series import Series, all_series, headline, layer_sets, published, repair_sites
from polarlens.report.shown import Summary

if TYPE_CHECKING:
    import altair as alt

COLUMNS = ("task", "of", "arm", "repair", "repair_layers", "delta", "layers", "positions", "policy_id", "mean")


def repair_panels(summary: Summary) -> "dict[str, alt.LayerChart]":
    """One panel per task and noise, where the repairs were run at one set of layers and a recovery is defined."""
    return {
        one.title: _panel(summary, one)
        for one in headline(all_series(summary, "repair", "recovery"), summary)
        if len(layer_sets(one)) < 2 and any(cell["mean"] is not None for cell in one.cells)
    }


def repair_lines(summary: Summary) -> list[dict[str, object]]:
    """Every recovery, with the paper's value beside it where there is one."""
    return [
        {**line, "paper": published(summary, str(line["repair"]), str(line["arm"])) if line["task"] == "loss" else None}
        for line in cell_lines(summary, "recovery")
    ]


def cell_lines(summary: Summary, measure: str) -> list[dict[str, object]]:
    """The cells of the repair experiment as lines of a CSV."""
    return [
        {
            **{name: cell[name] for name in COLUMNS},
            **dict(zip(("ci95_low", "ci95_high"), cell["ci95"] or (None, None), strict=True)),
            **{"n_items": cell["n_items"], "n_seeds": cell["n_seeds"]},
        }
        for one in all_series(summary, "repair", measure)
        for cell in one.cells
    ]


def _panel(summary: Summary, one: Series) -> "alt.LayerChart":
    sites = repair_sites(one)
    points, paper = [], []
    for name, layers in sites:
        for arm in ARMS:
            cell = one.cell(repair=name, repair_layers=layers, arm=arm)
            if cell is not None:
                points.append({**point(cell["mean"], cell["ci95"], ""), "name": name, "arm": arm})
            said = published(summary, name, arm) if one.task == "loss" else None
            if said is not None:
                paper.append({**point(said, None, ""), "shown": f"paper: {share(said)}", "name": name, "arm": arm})
    subtitle = [one.where, f"layers {layers} repaired" if (layers := next(iter(layer_sets(one)), "")) else ""]
    return dots(
        points,
        [name for name, _ in sites],
        title=one.title,
        subtitle=[", ".join(filter(None, subtitle)), "95 % intervals" + ("; cross: the paper" if paper else "")],
        axis="damage recovered",
        percent=True,
        published=paper,
    )
