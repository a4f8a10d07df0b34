"""What probes read and what a block alone computes: the entries of the experiment `probing`, block by block."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polarlens.report.shown import Summary, loss_measure
from polarlens.statistics.probing import CLAIM_POOLING, EXPERIMENT

Cell = Mapping[str, Any]
REPRESENTATIONS = ("norm", "direction", "full", "norm-profile", "random-1d")
COMPARED = ("norm", "direction")  # in the order of the arms that move them
R2 = "held-out R²"


@dataclass(frozen=True)
class Read:
    """What is read: a target and the metric of its probes, in words and with its unit."""

    target: str
    metric: str
    title: str
    unit: str


READ = (
    Read("upos", "accuracy", "Part of speech, accuracy", "points"),
    Read("upos", "selectivity", "Part of speech, accuracy less that on random labels (selectivity)", "points"),
    Read("depth", "gain", "Parse depth, gain over confounds", R2),
    Read("depth", "gain_upos", "Parse depth, gain over confounds and part of speech", R2),
    Read("depth", "r2", "Parse depth, the representation alone", R2),
    Read("depth", "spearman", "Parse depth, rank correlation", "Spearman's rho"),
    Read("arc_length", "gain", "Arc length, gain over confounds", R2),
    Read("arc_length", "r2", "Arc length, the representation alone", R2),
)


def probe_cells(summary: Summary, measure: str = "score") -> list[Cell]:
    """The cells of probes: `score`, clean and after an arm, or `drop`."""
    return [one for one in summary["cells"] if one["experiment"] == EXPERIMENT and one["measure"] == measure]


def block_cells(summary: Summary, task: str) -> list[Cell]:
    """Damages of single blocks in the measure of the verdict, over all phenomena, blocks ascending."""
    measure = loss_measure(summary) if task == "loss" else "accuracy"
    found = [
        one
        for one in summary["cells"]
        if one["experiment"] == EXPERIMENT
        and (one.get("task"), one["measure"]) == (task, measure)
        and one.get("phenomenon") is None
    ]
    return sorted(found, key=lambda one: int(one["layers"]))


def probe_contrasts(summary: Summary, measure: str) -> list[Cell]:
    """Contrasts of probes: direction - norm (`score`), or angular - magnitude (`drop`)."""
    return [one for one in summary["contrasts"] if one["experiment"] == EXPERIMENT and one["measure"] == measure]


def clean(cells: Iterable[Cell], read: Read, representation: str | None = None) -> list[Cell]:
    """The cells of clean states in the pooling of the claims, blocks ascending."""
    found = [
        one
        for one in cells
        if (one["target"], one["metric"], one.get("pooling")) == (read.target, read.metric, CLAIM_POOLING)
        and one.get("after_arm") is None
        and representation in (None, one["representation"])
    ]
    return sorted(found, key=lambda one: int(one["block"]))


def majority(summary: Summary) -> Cell | None:
    """Accuracy of the most frequent part of speech."""
    return next((one for one in probe_cells(summary) if one["representation"] == "majority"), None)


def only(cells: Sequence[Cell], **wanted: object) -> Cell | None:
    """The cell with these values."""
    return next((one for one in cells if wanted.items() <= one.items()), None)
