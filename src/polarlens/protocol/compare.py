"""Several runs side by side: their folders -> `compare.json`, `compare.html` and figures; needs no model."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarlens.errors import UsageError
from polarlens.protocol.folder import read_manifest
from polarlens.protocol.result import Run
from polarlens.rows.store import read_rows, write_json

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

    from polarlens.statistics.across import RunFacts

SUMMARY_KEYS = {"model", "preset", "policies", "baseline", "contrasts", "claims", "verdict"}
KEYS = {"schema", "runs", "contrasts", "claims", "warnings"}


@dataclass(frozen=True)
class Compared:
    """Several runs compared: `document` as in `compare.json`, which lies in `folder` with its page and figures."""

    folder: Path
    document: dict[str, Any]

    def table(self) -> "pd.DataFrame":
        """The contrasts between models, one row each."""
        import pandas as pd

        return pd.DataFrame(self.document["contrasts"])

    @property
    def claims(self) -> "pd.DataFrame":
        """The claims that need several models (C8, C9), one row each."""
        import pandas as pd

        return pd.DataFrame(self.document["claims"])

    def plot(self, figure: str = "ratio") -> "alt.TopLevelMixin":
        """A figure as an Altair chart."""
        from polarlens.report import COMPARE_FIGURES

        if figure not in COMPARE_FIGURES:
            raise UsageError(f"there is no figure {figure!r}", fix=f"Choose one of {', '.join(COMPARE_FIGURES)}.")
        return COMPARE_FIGURES[figure](self.document)

    def __repr__(self) -> str:
        from polarlens.report import render_compare

        return render_compare(self.document, self.folder)


def compare(runs: Sequence[str | Path | Run], out: str | Path | None = None) -> Compared:
    """Compare two or more finished runs and write `compare.json`, `compare.html` and figures.

    runs: their folders. out: where to write; by default the folder that holds all the runs, or the current one where
        they lie in different places.

    Raises UsageError when a folder holds no run or cannot be read, a run is given twice, or no two runs share a
    condition.
    """
    from polarlens.report import write_compare
    from polarlens.statistics.across import compare_runs

    folders = [one.folder if isinstance(one, Run) else Path(one).expanduser() for one in runs]
    _check_distinct(folders)
    document = compare_runs(_named([_read(folder) for folder in folders]))
    folder = _destination(folders) if out is None else Path(out).expanduser()
    _check_ours(folder)
    write_json(folder / "compare.json", document)
    write_compare(folder, document)
    return Compared(folder, document)


def _check_distinct(folders: Sequence[Path]) -> None:
    if len(folders) < 2:
        raise UsageError("a comparison needs two runs or more", fix="Give the folders of several runs.")
    for folder, times in Counter(folder.resolve() for folder in folders).items():
        if times > 1:
            raise UsageError("this run is given twice", where=str(folder), fix="Give every folder once.")


def _read(folder: Path) -> "RunFacts":
    from polarlens.statistics.across import RunFacts

    fix = "Give the folders that `polarlens run --out` wrote."
    try:
        manifest = read_manifest(folder)
    except UsageError as error:
        raise UsageError(error.what, where=error.where, fix=fix) from None
    if manifest is None:
        raise UsageError("this folder holds no run", where=str(folder), fix=fix)
    path = folder / "summary.json"
    try:
        summary = json.loads(path.read_text("utf-8"))
        if not isinstance(summary, dict) or not summary.keys() >= SUMMARY_KEYS:
            raise ValueError
    except (OSError, ValueError):
        again = f"Rebuild it from the rows: polarlens report {folder}"
        raise UsageError("the run's summary cannot be read", where=str(path), fix=again) from None
    return RunFacts(str(summary["model"]), str(folder), summary, manifest, read_rows(folder, "sweep"))


def _named(runs: "list[RunFacts]") -> "list[RunFacts]":
    """Each run under a name of its own: the model's title, or its folder's too where two models share one."""
    import dataclasses

    from polarlens.report import model_title

    titles = [model_title(run.name) for run in runs]
    names = [
        title if titles.count(title) == 1 else f"{title} ({run.path})" for title, run in zip(titles, runs, strict=True)
    ]
    return [dataclasses.replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def _destination(folders: Sequence[Path]) -> Path:
    """The folder that all runs lie in, else the current one."""
    parents = {folder.resolve().parent for folder in folders}
    return parents.pop() if len(parents) == 1 else Path()


def _check_ours(folder: Path) -> None:
    """Refuse to replace files of our names that a comparison did not write."""
    path = folder / "compare.json"
    try:
        document = json.loads(path.read_text("utf-8"))
        ours = isinstance(document, dict) and document.keys() >= KEYS
    except FileNotFoundError:
        ours = not (folder / "compare.html").exists()
    except (OSError, ValueError):
        ours = False
    if not ours:
        raise UsageError(
            "a compare.json or compare.html lies there that is not from a comparison of runs",
            where=str(folder),
            fix="Choose another folder with --out: nothing of yours is replaced.",
        )
