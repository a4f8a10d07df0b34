"""What the tables of the page and of the terminal hold: the sweep by task and condition, the baseline, the claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polarlens.perturbation.policy import ARMS
from polarlens.report.numbers import NONE, estimate, interval, nats, number, probability, share
from polarlens.report.shown import UNITS, Entry, Summary, contrasts, damages, loss_measure, noises
from polarlens.statistics.contrasts import UNUSABLE

FEW = 30  # items (or clusters) below which a t interval on skewed damages is a rough guide
_NAMES = {"loss": "Next-token loss: damage", "pairs": "Minimal pairs: accuracy drop"}
DIFFERENCES = {"loss": "angular − magnitude", "pairs": "magnitude − angular"}


@dataclass(frozen=True)
class Row:
    """One condition. found: `magnitude`, `angular`, `difference`, `ratio` -> its entry, where there is one."""

    layers: str | None
    delta: float
    found: Mapping[str, Entry]

    def text(self, what: str) -> str:
        """The number with its 95 % interval, or a dash."""
        entry = self.found.get(what)
        return NONE if entry is None else estimate(entry.value, entry.ci95, entry.unit)

    @property
    def usable(self) -> bool:
        """Whether the delta counts: not where both arms are at the floor of the task."""
        return not any(UNUSABLE in (entry.source.get("why") or "") for entry in self.found.values())

    @property
    def shown_delta(self) -> str:
        """The delta, with a star where it is not usable."""
        return f"{self.delta:g}" + ("" if self.usable else " *")

    @property
    def p_holm(self) -> str:
        """The adjusted p-value of the difference."""
        entry = self.found.get("difference")
        return NONE if entry is None else probability(entry.source["p_holm"])

    @property
    def left_clean(self) -> str:
        """The larger share, of the two arms, of tokens whose norm is no larger than the distance asked."""
        shares = [s for a in ARMS if a in self.found if (s := self.found[a].source["infeasible_share"]) is not None]
        return share(max(shares, default=None))


@dataclass(frozen=True)
class Group:
    """The conditions of one task under one pair policy (None for texts), blocks and deltas ascending."""

    task: str
    noise: str | None
    rows: Sequence[Row]

    @property
    def title(self) -> str:
        """Task, measure and unit."""
        return f"{_NAMES[self.task]}, {UNITS[self.task]}" + (f", {self.noise} noise" if self.noise else "")

    @property
    def notes(self) -> list[str]:
        """What a reader of the rows has to know: stars, and intervals that rest on few items."""
        out = [] if all(row.usable for row in self.rows) else [f"* not usable: {UNUSABLE.split(':')[0]}"]
        behind = [
            entry.source.get("n_clusters") or entry.source["n_items"]
            for row in self.rows
            for entry in row.found.values()
            if entry.ci95 is not None
        ]
        if behind and min(behind) < FEW:
            what = "texts" if self.task == "loss" else "pairs, or groups of pairs,"
            out.append(f"only {min(behind)} {what} stand behind an interval: fewer than {FEW} make it a rough guide")
        return out

    @property
    def difference(self) -> str:
        """Which arm is subtracted from which."""
        return DIFFERENCES[self.task]


def groups(summary: Summary, positions: str | None) -> list[Group]:
    """Damages and contrasts of the sweep at these positions, one group per task and pair policy."""
    entries = damages(summary, positions) + contrasts(summary, positions)
    out = []
    for task, noise in noises(entries):
        found: dict[tuple[str | None, float], dict[str, Entry]] = {}
        for entry in entries:
            if (entry.task, entry.noise) == (task, noise):
                found.setdefault((entry.condition.layers, entry.condition.delta), {})[entry.what] = entry
        out.append(Group(task, noise, [Row(layers, delta, by) for (layers, delta), by in found.items()]))
    return out


def baseline_lines(summary: Summary) -> list[str]:
    """What the unperturbed model does on each task."""
    loss, pairs = summary["baseline"]["loss"], summary["baseline"]["pairs"]
    out = []
    if loss is not None:
        mean = estimate(loss[loss_measure(summary)]["mean"], loss[loss_measure(summary)]["ci95"], "nats")
        out.append(f"loss {mean} nats per token ({loss['n_items']:,} texts, {loss['n_tokens']:,} tokens)")
    if pairs is not None:
        accuracy = estimate(pairs["accuracy"], pairs["ci95"], "points")
        out.append(f"accuracy {accuracy} points ({pairs['n_items']:,} pairs, {pairs['ties']:,} ties)")
    return out or ["nothing was measured"]


@dataclass(frozen=True)
class ClaimText:
    """A claim of the paper with its numbers as text."""

    id: str
    claim: str
    paper: str
    measured: str
    interval: str
    status: str
    why: str


def claim_texts(summary: Summary) -> list[ClaimText]:
    """The claims in the summary's order."""
    return [_claim(claim) for claim in summary["claims"]]


def _claim(claim: Mapping[str, Any]) -> ClaimText:
    unit = "points" if claim["claim"].endswith("(points)") else "nats"
    size = {True: ", size agrees", False: ", size differs"}.get(claim["size_agrees"], "")
    return ClaimText(
        id=claim["id"],
        claim=claim["claim"],
        paper=nats(claim["paper"]),
        measured=number(claim["measured"], unit),
        interval=interval(claim["ci95"], unit) or NONE,
        status=claim["status"].replace("_", " ") + size,
        why=claim["why"] or "",
    )


def not_run(claims: Sequence[ClaimText]) -> str:
    """The claims that were not tested, folded by reason: `C6, C7 (no treebank); C8 (...)`; empty without any."""
    by_reason: dict[str, list[str]] = {}
    for claim in claims:
        if claim.status.startswith("not run"):
            by_reason.setdefault(claim.why, []).append(claim.id)
    return "; ".join(f"{', '.join(ids)} ({why})" for why, ids in by_reason.items())
