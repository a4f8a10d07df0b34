"""Damage per delta squared as delta goes to 0, and the limit of the arms' ratio, block by block."""

from typing import TYPE_CHECKING

from polarlens.report.figures.curves import curves
from polarlens.report.figures.style import point
from polarlens.report.series import Series, all_series, headline
from polarlens.report.shown import Summary

if TYPE_CHECKING:
    import altair as alt

LIMIT, UNIT = "limit of R", "nats per token and delta²"
MEASURES = ("curvature", "curvature_tangential", "curvature_gradient")


def curvature_panels(summary: Summary) -> "dict[str, alt.LayerChart]":
    """Both arms' curvatures, and the limit of R at the blocks where it is defined."""
    found = {}
    for one in headline(all_series(summary, "curvature", "curvature"), summary):
        points = [
            {**point(cell["mean"], cell["ci95"], UNIT), "arm": cell["arm"], "block": cell["block"]}
            for cell in one.cells
            if cell["mean"] is not None
        ]
        if points:
            found["Curvature"] = curves(
                points, title="Curvature", subtitle=_below(one), x="perturbed block", y=f"damage ({UNIT})"
            )
        limits = [
            {**point(ratio["value"], ratio["ci95"], ""), "arm": LIMIT, "block": ratio["block"]}
            for ratio in one.contrasts
            if ratio["kind"] == "ratio" and ratio["value"] is not None and ratio["value"] > 0
        ]
        if limits:
            found["Limit of R"] = curves(
                limits,
                title="Limit of R as delta goes to 0",
                subtitle=_below(one),
                x="perturbed block",
                y="angular / magnitude",
                log=True,
                level=1.0,
            )
    return found


def curvature_lines(summary: Summary) -> list[dict[str, object]]:
    """Curvatures and their parts per arm, and the contrasts, at every block."""
    found: list[dict[str, object]] = []
    for one in all_series(summary, "curvature", *MEASURES):
        for cell in (*one.cells, *one.contrasts):
            low, high = cell["ci95"] or (None, None)
            found.append(
                {
                    **{"block": cell["block"], "positions": cell["positions"], "measure": cell["measure"]},
                    **{"arm": cell.get("arm"), "contrast": cell.get("kind")},
                    "value": cell["mean"] if "arm" in cell else cell["value"],
                    **{"ci95_low": low, "ci95_high": high, "n_items": cell["n_items"]},
                }
            )
    return found


def _below(one: Series) -> list[str]:
    return [f"positions {one.positions}; 95 % intervals"]
