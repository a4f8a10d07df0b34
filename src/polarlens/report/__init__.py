"""Summary -> figures, `report.html` and the text of a terminal; no model and no rows."""

from pathlib import Path
from typing import Any

from polarlens.report.figures import FIGURES, write_figure
from polarlens.report.page import write_page
from polarlens.report.sentence import sentence
from polarlens.report.terminal import render_text

__all__ = ["FIGURES", "render_text", "sentence", "write_report"]


def write_report(folder: Path, summary: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Write `report.html` and `figures/NAME.svg|png|csv` into a run's folder; each file whole or not at all.

    summary, manifest: as in `summary.json` and `manifest.json`. A figure that has nothing to draw is left out.
    """
    for name in FIGURES:
        write_figure(folder / "figures", name, summary)
    write_page(folder / "report.html", summary, manifest)
