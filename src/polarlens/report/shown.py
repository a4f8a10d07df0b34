"""What of a summary a reader is shown: the damages and contrasts of the headline, in the order of the conditions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polarlens.statistics.claims import reference_delta
from polarlens.statistics.damage import Condition
from polarlens.statistics.summary import EXPERIMENT as SWEEP
from polarlens.statistics.summary import LOSS_MEASURE, POSITIONS
from polarlens.statistics.verdict import pair_policy_name

Summary = Mapping[str, Any]

TASKS = ("loss", "pairs")
UNITS = {"loss": "nats per token", "pairs": "points"}
DISPLACEMENT = {
    "relative": "relative displacement (fraction of the norm)",
    "absolute": "displacement (distance)",
    "site": "displacement (fraction of the block's median norm)",
}


@dataclass(frozen=True)
class Entry:
    """One number of the summary with the condition it belongs to.

    what: the arm of a damage, `difference` or `ratio` of a contrast. noise: the pair policy, None for texts.
    source: the entry of `cells` or `contrasts`.
    """

    what: str
    task: str
    noise: str | None
    condition: Condition
    value: float | None
    ci95: tuple[float, float] | None
    source: Mapping[str, Any]

    @property
    def unit(self) -> str:
        """Unit of the value; empty for a ratio."""
        return "" if self.what == "ratio" else UNITS[self.task]


def model_title(name: str) -> str:
    """A model's name as a title: of a path the file's or folder's own name, a Hub id as it is."""
    parts = name.replace("\\", "/").rstrip("/").split("/")
    is_path = name.startswith(("/", ".", "~")) or len(parts) > 2 or name.endswith(".gguf") or "\\" in name
    return parts[-1] if is_path and parts[-1] not in ("", ".", "..", "~") else name


def loss_measure(summary: Summary) -> str:
    """`nll` (all tokens together) or `nll_item` (the mean over texts), as the verdict uses it."""
    return LOSS_MEASURE.get(summary["preset"], "nll")


def displacement(summary: Summary) -> str:
    """What delta measures, in words; a bare `displacement delta` where the summary does not say."""
    return DISPLACEMENT.get(summary.get("delta_mode") or "", "displacement delta")


def positions_run(summary: Summary, experiment: str = SWEEP) -> list[str | None]:
    """The positions of the sweep, or of another experiment; the first one is the headline's."""
    run = dict.fromkeys(cell["positions"] for cell in summary["cells"] if _is_of(cell, experiment))
    known: list[str | None] = [name for name in POSITIONS if name in run]
    return known + [name for name in run if name not in POSITIONS]


def damages(summary: Summary, positions: str | None, experiment: str = SWEEP) -> list[Entry]:
    """Loss damage and accuracy drop of both arms at every delta above 0, over all phenomena; of one experiment."""
    found = [cell for cell in summary["cells"] if _is_of(cell, experiment)]
    return _entries(summary, found, "arm", "mean", positions)


def contrasts(summary: Summary, positions: str | None) -> list[Entry]:
    """Differences and ratios of the arms' loss damage and accuracy drop, over all phenomena."""
    found = [one for one in summary["contrasts"] if _is_of(one, SWEEP)]
    return _entries(summary, found, "kind", "value", positions)


def noises(entries: list[Entry]) -> list[tuple[str, str | None]]:
    """(task, pair policy) of each series, the texts first."""
    found = dict.fromkeys((entry.task, entry.noise) for entry in entries)
    return sorted(found, key=lambda one: (TASKS.index(one[0]), one[1] or ""))


def headline_noise(names: Sequence[str | None]) -> str | None:
    """The pair policy that is shown where one stands for all: independent noise before any other."""
    return "independent" if "independent" in names else next(iter(names), None)


def blocks(entries: list[Entry]) -> list[str | None]:
    """The groups of layers, in the order of the blocks."""
    ordered = sorted(entries, key=lambda entry: entry.condition.order[3])
    return list(dict.fromkeys(entry.condition.layers for entry in ordered))


def reference(summary: Summary, entries: list[Entry]) -> float:
    """The one delta that stands for the grid: nearest to 0.1 (absolute: 5) on the log scale."""
    mode = summary.get("delta_mode") or ("absolute" if summary["preset"] in LOSS_MEASURE else None)
    return reference_delta(sorted({entry.condition.delta for entry in entries}), mode)


def _is_of(entry: Mapping[str, Any], experiment: str) -> bool:
    """Whether it is a damage (or a contrast of damages) of the experiment, over all phenomena; no control."""
    a_damage = entry["experiment"] == experiment and entry.get("task") is not None
    return a_damage and bool(entry["delta"] > 0) and entry.get("phenomenon") is None


def _entries(
    summary: Summary, entries: list[Mapping[str, Any]], what: str, value: str, positions: str | None
) -> list[Entry]:
    measures = {"loss": loss_measure(summary), "pairs": "accuracy"}
    out = []
    for one in entries:
        if one["positions"] != positions or one["measure"] != measures.get(one["task"]):
            continue
        task, policy_id = one["task"], one["policy_id"]
        noise = pair_policy_name(policy_id or "", summary["policies"]) if task == "pairs" else None
        condition = Condition(task, one["layers"], positions, policy_id, one["delta"])
        bounds = None if one["ci95"] is None else (one["ci95"][0], one["ci95"][1])
        out.append(Entry(one[what], task, noise, condition, one[value], bounds, one))
    return sorted(out, key=lambda entry: (*entry.condition.order, entry.what))
