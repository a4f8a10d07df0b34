"""What of the experiment `probing` a reader is shown: scores, what a perturbation takes, damages of single blocks."""

from collections.abc import Mapping
from typing import Any

from polarlens.report.series import Cell
from polarlens.report.shown import Entry, Summary, damages, headline_noise, positions_run, reference
from polarlens.statistics.probing import CLAIM_POOLING, EXPERIMENT, POINTS

POOLING = CLAIM_POOLING
# the field's names for what an arm changes
REPRESENTATIONS = ("direction", "norm", "full", "norm-profile", "random-1d")
TARGETS = {"upos": "Part of speech", "depth": "Parse depth", "arc_length": "Arc length"}


def unit(metric: str) -> str:
    """Unit of a score."""
    return "points" if metric in POINTS else "rank correlation" if metric == "spearman" else "R2"


def scores(summary: Summary, measure: str = "score") -> list[Cell]:
    """Cells of `score` on clean states, or of `drop`."""
    after = measure == "drop"
    return [one for one in _of(summary["cells"], measure) if ("after_arm" in one) == after]


def score_contrasts(summary: Summary, measure: str = "score") -> list[Cell]:
    """direction - norm on clean states, or angular - magnitude of the drops."""
    return _of(summary["contrasts"], measure)


def find(entries: list[Cell], **wanted: object) -> Cell | None:
    """The first entry with these values; a key that an entry lacks is None."""
    return next((one for one in entries if all(one.get(key) == value for key, value in wanted.items())), None)


def probed_blocks(summary: Summary) -> list[int]:
    """The blocks that were probed, -1 for the embeddings, ascending."""
    return sorted({one["block"] for one in scores(summary) if "block" in one})


def middle(blocks: list[int]) -> int | None:
    """The middle one of the blocks, which the embeddings are not one of."""
    real = [block for block in blocks if block >= 0]
    return real[len(real) // 2] if real else None


def alone(summary: Summary) -> list[Entry]:
    """Damages where one block alone was perturbed, at one delta; blocks ascending."""
    found = damages(summary, next(iter(positions_run(summary, EXPERIMENT)), None), EXPERIMENT)
    if not found:
        return []
    delta = reference(summary, found)
    here = [one for one in found if one.condition.delta == delta and (one.condition.layers or "").isdigit()]
    return sorted(here, key=block_of)


def block_of(entry: Entry) -> int:
    """The one perturbed block."""
    return int(entry.condition.layers or -1)


def noise_shown(entries: list[Entry]) -> str | None:
    """The pair policy shown; None without pairs."""
    return headline_noise(sorted({one.noise for one in entries if one.noise is not None}))


def at(entries: list[Entry], task: str, noise: str | None) -> list[Entry]:
    """Damages in one task under one pair policy (None for texts)."""
    return [one for one in entries if (one.task, one.noise) == (task, noise)]


def _of(entries: list[Mapping[str, Any]], measure: str) -> list[Cell]:
    return [one for one in entries if one["experiment"] == EXPERIMENT and one["measure"] == measure]
