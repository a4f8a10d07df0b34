"""A figure: panels for the page, one chart for Python and papers, and the numbers that are drawn."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from polarlens.errors import UsageError
from polarlens.report.figures.style import styled, svg
from polarlens.report.shown import Summary
from polarlens.rows.store import written_whole

if TYPE_CHECKING:
    import altair as alt

Panels = Mapping[str, "alt.LayerChart"]
Line = Mapping[str, object]


@dataclass(frozen=True)
class Figure:
    """panels: title -> chart, each complete in itself; empty when there is nothing to draw.

    lines: the CSV, one mapping per number. columns: how many panels stand side by side. fix: what a run must hold.
    """

    panels: Callable[[Summary], Panels]
    lines: Callable[[Summary], Sequence[Line]]
    fix: str
    columns: int = 2

    def __call__(self, summary: Summary) -> "alt.ConcatChart":
        """All panels as one chart. Raises UsageError when there is nothing to draw."""
        import altair as alt

        found = list(self.panels(summary).values())
        if not found:
            raise UsageError("there is nothing to draw", where=str(summary["model"]), fix=self.fix)
        return styled(alt.concat(*found, columns=self.columns, spacing=36))

    def csv(self, summary: Summary) -> str:
        """The summary's numbers in full, empty where there is none."""
        lines = self.lines(summary)
        text = io.StringIO()
        table = csv.DictWriter(text, list(lines[0]) if lines else [], lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
        return text.getvalue()


def write(folder: Path, name: str, chart: "alt.TopLevelMixin", numbers: str) -> None:
    """Write NAME.svg, NAME.png (at twice the size) and NAME.csv, each whole or not at all."""
    picture = io.BytesIO()
    chart.save(picture, format="png", scale_factor=2)
    for suffix, content in (("svg", svg(chart).encode()), ("png", picture.getvalue()), ("csv", numbers.encode())):
        with written_whole(folder / f"{name}.{suffix}") as file:
            file.write(content)
