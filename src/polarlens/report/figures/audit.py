"""What moving one factor of the noise policy does to the two contrasts, the largest effects first."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polarlens.report.figures.dots import dots
from polarlens.report.figures.style import point
from polarlens.report.shown import Summary

if TYPE_CHECKING:
    import altair as alt

CORNERS = ("matched", "notebook")
PANELS = {
    "log_ratio": ("Effects on the loss ratio", "change of log(angular / magnitude); 0.69 doubles the ratio"),
    "accuracy": ("Effects on the accuracy contrast", "change of magnitude − angular (points)"),
}


def audit_panels(summary: Summary) -> "dict[str, alt.LayerChart]":
    """A forest of effects per measure."""
    found = {measure: [e for e in effects(summary, measure) if e["value"] is not None] for measure in PANELS}
    return {PANELS[measure][0]: _panel(measure, known) for measure, known in found.items() if known}


def audit_lines(summary: Summary) -> list[dict[str, object]]:
    """Every effect and interaction."""
    return [
        {
            **{key: one[key] for key in ("measure", "kind", "policy_id", "from")},
            "changes": "; ".join(f"{factor}={level}" for factor, level in one["changes"].items()),
            "value": one["value"],
            **dict(zip(("ci95_low", "ci95_high"), one["ci95"] or (None, None), strict=True)),
            **{"p_holm": one["p_holm"], "rank": one["rank"]},
        }
        for one in summary.get("audit_effects") or ()
    ]


def effects(summary: Summary, measure: str, kind: str = "effect") -> list[Mapping[str, Any]]:
    """The effects on a measure, the largest first; those that could not be estimated last."""
    found = [e for e in summary.get("audit_effects") or () if (e["measure"], e["kind"]) == (measure, kind)]
    return sorted(found, key=lambda e: (e["value"] is None, e["rank"] or 0))


def _panel(measure: str, known: list[Mapping[str, Any]]) -> "alt.LayerChart":
    title, axis = PANELS[measure]
    unit = "points" if measure == "accuracy" else ""
    points = [{**point(e["value"], e["ci95"], unit), "name": e["policy_id"], "arm": e["from"]} for e in known]
    return dots(
        points,
        [e["policy_id"] for e in known],
        title=title,
        subtitle=["against the corner named by colour and shape", "95 % intervals"],
        axis=axis,
        groups=CORNERS,
        row=18,
    )
