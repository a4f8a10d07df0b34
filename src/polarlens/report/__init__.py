"""Summary -> figures, `report.html` and the text of a terminal; no model and no rows."""

from pathlib import Path
from typing import Any

from polarlens.report.compare_figure import COMPARE_FIGURES, write_compare_figure
from polarlens.report.compare_page import write_compare_page
from polarlens.report.compare_text import render_compare
from polarlens.report.figures import FIGURES, plot, write_figure
from polarlens.report.page import write_page
from polarlens.report.sentence import sentence
from polarlens.report.shown import model_title
from polarlens.report.terminal import render_text

__all__ = [
    "COMPARE_FIGURES",
    "FIGURES",
    "model_title",
    "plot",
    "render_compare",
    "render_text",
    "sentence",
    "write_compare",
    "write_report",
]


def write_report(folder: Path, summary: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Write `report.html` and `figures/NAME.svg|png|csv` into a run's folder; each file whole or not at all.

    summary, manifest: as in `summary.json` and `manifest.json`. A figure that has nothing to draw is left out.
    """
    for name in FIGURES:
        write_figure(folder / "figures", name, summary)
    write_page(folder / "report.html", summary, manifest)


def write_compare(folder: Path, document: dict[str, Any]) -> None:
    """Write `compare.html` and `figures/compare-ratio.svg|png|csv`; document: as in `compare.json`."""
    write_compare_figure(folder / "figures", document)
    write_compare_page(folder / "compare.html", document)
