"""How far an error is from the clean run at every block, relative to the clean state."""

from typing import TYPE_CHECKING

from polarlens.report.figures.curves import curves
from polarlens.report.figures.style import point
from polarlens.report.series import Series, all_series, headline
from polarlens.report.shown import Summary
from polarlens.statistics.travels import CURVES, UNITS

if TYPE_CHECKING:
    import altair as alt

ITEMS = {"loss": "texts", "pairs": "minimal pairs"}


def propagation_panels(summary: Summary) -> "dict[str, alt.LayerChart]":
    """One panel per task, for the injection at the first perturbed block."""
    series = headline(all_series(summary, "propagation", "relative"), summary)
    found = {f"Distance to the clean run: {ITEMS[one.task]}": (one, _points(one)) for one in series}
    return {
        title: curves(
            points,
            title=title,
            subtitle=[f"injected at block {one.layers}, delta {one.delta:g}", "95 % intervals"],
            x="block",
            y="distance / clean norm",
            log=True,
        )
        for title, (one, points) in found.items()
        if points
    }


def propagation_lines(summary: Summary) -> list[dict[str, object]]:
    """Every measure at every block, for every injection."""
    return [
        {
            **{"task": cell["task"], "injected_at": cell["layers"], "block": cell.get("block"), "arm": cell["arm"]},
            **{"measure": cell["measure"], "unit": UNITS.get(cell["measure"], "ratio"), "delta": cell["delta"]},
            **{"positions": cell["positions"], "policy_id": cell["policy_id"], "mean": cell["mean"]},
            **dict(zip(("ci95_low", "ci95_high"), cell["ci95"] or (None, None), strict=True)),
            **{"n_items": cell["n_items"], "n_seeds": cell["n_seeds"]},
        }
        for one in all_series(summary, "propagation", *CURVES, "amplification")
        for cell in one.cells
    ]


def _points(one: Series) -> list[dict[str, object]]:
    """A log axis has no place for a distance of 0."""
    return [
        {**point(cell["mean"], cell["ci95"], ""), "arm": cell["arm"], "block": cell["block"]}
        for cell in one.cells
        if cell["mean"] is not None and cell["mean"] > 0
    ]
