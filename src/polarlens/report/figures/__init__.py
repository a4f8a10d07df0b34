"""The report's figures as Vega-Altair charts, drawn from the summary alone, and the files they are written to."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from polarlens.errors import UsageError
from polarlens.report.figures.audit import audit_lines, audit_panels
from polarlens.report.figures.curvature import curvature_lines, curvature_panels
from polarlens.report.figures.dissociation import dissociation_lines, dissociation_panels
from polarlens.report.figures.encoding import encoding_lines, encoding_panels
from polarlens.report.figures.figure import Figure, write
from polarlens.report.figures.propagation import propagation_lines, propagation_panels
from polarlens.report.figures.repair import repair_lines, repair_panels
from polarlens.report.figures.repair_layers import repair_layers_lines, repair_layers_panels
from polarlens.report.figures.shapley import shapley_lines, shapley_panels
from polarlens.report.shown import Summary

if TYPE_CHECKING:
    import altair as alt

FIGURES: Mapping[str, Figure] = {
    "dissociation": Figure(dissociation_panels, dissociation_lines, "Run the sweep on a task."),
    "audit": Figure(audit_panels, audit_lines, "Run the experiment `audit`.", columns=1),
    "repair": Figure(repair_panels, repair_lines, "Run the experiment `repair` where the damage is clearly above 0."),
    "shapley": Figure(
        shapley_panels, shapley_lines, "Run the repairs `attention`, `mlp` and `attention+mlp` at one set of layers."
    ),
    "repair-layers": Figure(
        repair_layers_panels, repair_layers_lines, "Run the experiment `repair` with `repair_layers` at `each`."
    ),
    "propagation": Figure(propagation_panels, propagation_lines, "Run the experiment `propagation`."),
    "curvature": Figure(curvature_panels, curvature_lines, "Run the experiment `curvature`."),
    "encoding": Figure(encoding_panels, encoding_lines, "Run the experiment `probing` with a treebank."),
}


def available(summary: Summary) -> list[str]:
    """The figures that a summary has numbers for."""
    return [name for name, figure in FIGURES.items() if figure.panels(summary)]


def plot(summary: Summary, name: str) -> "alt.ConcatChart":
    """A figure by its name. Raises UsageError, naming those that can be drawn, when it is not among them."""
    has = available(summary)
    if name in has:
        return FIGURES[name](summary)
    drawn = f"This run has {', '.join(has)}." if has else "This run has none."
    if name in FIGURES:
        raise UsageError(f"this run has no numbers for the figure {name!r}", fix=f"{drawn} {FIGURES[name].fix}")
    raise UsageError(f"there is no figure {name!r}", fix=drawn)


def write_figure(folder: Path, name: str, summary: Summary) -> None:
    """Write NAME.svg, NAME.png (at twice the size) and NAME.csv, the numbers drawn; nothing when there are none."""
    figure = FIGURES[name]
    if figure.panels(summary):
        write(folder, name, figure(summary), figure.csv(summary))
