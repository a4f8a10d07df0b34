"""What attention and MLP give back by themselves, together, and what neither can reach."""

from typing import TYPE_CHECKING

from polarlens.report.figures.dots import dots
from polarlens.report.figures.repair import cell_lines
from polarlens.report.figures.style import ARMS, point
from polarlens.report.series import SPLIT, Series, all_series, headline, layer_sets
from polarlens.report.shown import Summary

if TYPE_CHECKING:
    import altair as alt


def shapley_panels(summary: Summary) -> "dict[str, alt.LayerChart]":
    """One panel per task and noise, where attention and MLP were repaired at one set of layers."""
    return {
        one.title: _panel(one)
        for one in headline(all_series(summary, "repair", "shapley"), summary)
        if len(layer_sets(one)) == 1 and any(cell["mean"] is not None for cell in one.cells)
    }


def shapley_lines(summary: Summary) -> list[dict[str, object]]:
    """Every split, in the unit of its measure."""
    return cell_lines(summary, "shapley")


def _panel(one: Series) -> "alt.LayerChart":
    layers = layer_sets(one)[0]
    points = [
        {**point(cell["mean"], cell["ci95"], one.unit), "name": name, "arm": arm}
        for name in SPLIT
        for arm in ARMS
        if (cell := one.cell(repair=name, repair_layers=layers, arm=arm)) is not None
    ]
    return dots(
        points,
        SPLIT,
        title=one.title,
        subtitle=[f"{one.where}, layers {layers} repaired", "95 % intervals"],
        axis=f"damage ({one.unit})",
    )
