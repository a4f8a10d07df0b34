"""A finished (or interrupted) run, read from its folder."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarlens.errors import UsageError
from polarlens.rows.schema import SCHEMAS
from polarlens.rows.store import read_rows

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


@dataclass(frozen=True)
class Run:
    """The result of a run: `summary` and `manifest` as in the folder's files, rows on demand.

    failed: one message per unit of work that failed; the rest of the run is complete.
    """

    folder: Path
    summary: dict[str, Any]
    manifest: dict[str, Any]
    failed: tuple[str, ...] = field(default=())

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        """Read a run's folder. Raises UsageError when it holds no summary."""
        folder = Path(folder)
        try:
            documents = [json.loads((folder / f"{name}.json").read_text("utf-8")) for name in ("summary", "manifest")]
        except (OSError, ValueError) as error:
            raise UsageError(
                "this folder holds no finished run",
                where=str(folder),
                fix="Give the folder that `polarlens run --out` wrote.",
            ) from error
        return cls(folder, *documents)

    @property
    def verdict(self) -> dict[str, Any]:
        """Kind, deltas and reason."""
        return self.summary["verdict"]

    @property
    def claims(self) -> "pd.DataFrame":
        """The paper's claims with their status, one row each."""
        import pandas as pd

        return pd.DataFrame(self.summary["claims"])

    def table(self, experiment: str) -> "pd.DataFrame":
        """All rows of an experiment."""
        if experiment not in SCHEMAS:
            raise UsageError(f"there is no experiment {experiment!r}", fix=f"Choose one of {', '.join(SCHEMAS)}.")
        return read_rows(self.folder, experiment)

    def plot(self, figure: str = "dissociation") -> "alt.TopLevelMixin":
        """A figure as an Altair chart; raises UsageError, naming the figures of this run, when it is not among them."""
        from polarlens.report import plot

        return plot(self.summary, figure)

    def __repr__(self) -> str:
        from polarlens.report import render_text

        return render_text(self.summary, self.folder)
