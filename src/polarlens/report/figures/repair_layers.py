"""Which layers matter: what repairing one of them recovers."""

from typing import TYPE_CHECKING

from polarlens.report.figures.curves import curves
from polarlens.report.figures.repair import repair_lines
from polarlens.report.figures.style import point
from polarlens.report.series import Series, all_series, headline, layer_sets, repair_sites
from polarlens.report.shown import Summary

if TYPE_CHECKING:
    import altair as alt


def repair_layers_panels(summary: Summary) -> "dict[str, alt.LayerChart]":
    """One panel per repair, of the first task; empty unless repairs were run one layer at a time."""
    profiles = [one for one in headline(all_series(summary, "repair", "recovery"), summary) if is_profile(one)]
    if not profiles:
        return {}
    one = profiles[0]
    found = {name: _points(one, name) for name in dict.fromkeys(name for name, layers in repair_sites(one) if layers)}
    return {
        name: curves(
            points,
            title=name,
            subtitle=[f"{one.title}, {one.where}", "95 % intervals"],
            x="repaired block",
            y="damage recovered",
            log=False,
            percent=True,
            height=150,
        )
        for name, points in found.items()
        if points
    }


def repair_layers_lines(summary: Summary) -> list[dict[str, object]]:
    """Every recovery of a run whose repairs were made one layer at a time."""
    return repair_lines(summary)


def is_profile(one: Series) -> bool:
    """Whether several single layers were repaired, one at a time."""
    layers = layer_sets(one)
    return len(layers) > 1 and all(name.isdigit() for name in layers)


def _points(one: Series, repair: str) -> list[dict[str, object]]:
    return [
        {**point(cell["mean"], cell["ci95"], ""), "arm": cell["arm"], "block": int(cell["repair_layers"])}
        for cell in one.cells
        if cell["repair"] == repair and cell["repair_layers"] and cell["mean"] is not None
    ]
