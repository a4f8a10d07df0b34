"""The cells and contrasts of repair, propagation and curvature, grouped by the condition they belong to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polarlens.report.shown import TASKS, UNITS, Summary, loss_measure
from polarlens.statistics.published import PAPER_MODEL, PAPER_PRESETS
from polarlens.statistics.published_numbers import published_as, published_recovery
from polarlens.statistics.summary import POSITIONS
from polarlens.statistics.verdict import pair_policy_name

Cell = Mapping[str, Any]
REPAIRS = (
    *("attention", "mlp", "attention+mlp", "norm", "attention-pattern", "attention-values"),
    *("attention-pattern+attention-values", "norm-scale", "final-norm-scale"),
)
SPLIT = ("attention", "mlp", "interaction", "out of reach")


@dataclass(frozen=True)
class Series:
    """All that was measured of one quantity under one condition.

    of: the measure that recoveries and splits are of, None elsewhere. noise: the pair policy, None for texts.
    """

    task: str
    of: str | None
    noise: str | None
    layers: str | None
    positions: str | None
    policy_id: str | None
    delta: float | None
    cells: list[Cell] = field(default_factory=list)
    contrasts: list[Cell] = field(default_factory=list)

    @property
    def unit(self) -> str:
        """Unit of a damage, and of a split of it."""
        return "nats" if self.of == "margin" else UNITS[self.task]

    @property
    def title(self) -> str:
        """`Next-token loss`, or `Minimal pairs: accuracy, common noise`."""
        if self.task == "loss":
            return "Next-token loss"
        of = f": {self.of}" if self.of else ""
        return f"Minimal pairs{of}" + (f", {self.noise} noise" if self.noise else "")

    @property
    def where(self) -> str:
        """Delta and perturbed layers."""
        delta = "" if self.delta is None else f"at delta {self.delta:g}"
        return ", ".join(filter(None, [delta, f"layers {self.layers} perturbed" if self.layers else ""]))

    def cell(self, **wanted: object) -> Cell | None:
        """The cell with these values."""
        return next((one for one in self.cells if _has(one, wanted)), None)

    def contrast(self, **wanted: object) -> Cell | None:
        """The contrast with these values."""
        return next((one for one in self.contrasts if _has(one, wanted)), None)


def all_series(summary: Summary, experiment: str, *measures: str) -> list[Series]:
    """One per task, `of` and condition: texts before pairs, the headline's positions and the first layers first."""
    found: dict[tuple[object, ...], Series] = {}
    for name in ("cells", "contrasts"):
        for one in summary[name]:
            if one["experiment"] != experiment or one["measure"] not in measures:
                continue
            layers = one["layers"] if one["delta"] is not None else None  # curvature: one series over the blocks
            task, policy = one["task"], one.get("policy_id")
            noise = pair_policy_name(policy or "", summary["policies"]) if task == "pairs" else None
            key = (task, one.get("of"), noise, layers, one["positions"], policy, one["delta"])
            series = found.setdefault(key, Series(*key))
            (series.cells if name == "cells" else series.contrasts).append(one)
    return sorted(found.values(), key=lambda one: _order(one, summary))


def headline(series: Sequence[Series], summary: Summary) -> list[Series]:
    """The series that are drawn: per task, measure of the verdict and pair policy, the first of its conditions."""
    first: dict[tuple[object, ...], Series] = {}
    for one in series:
        if one.of in (None, loss_measure(summary), "accuracy"):
            first.setdefault((one.task, one.of, one.noise), one)
    return list(first.values())


def repair_sites(series: Series) -> list[tuple[str, str | None]]:
    """(repair, layers) of a series, in the order of the instrument and of the blocks."""
    found = {(str(one["repair"]), one["repair_layers"]) for one in series.cells}
    names = (*REPAIRS, *SPLIT)
    rank = {name: names.index(name) for name in names}
    return sorted(found, key=lambda site: (rank.get(site[0], len(rank)), site[0], _first_block(site[1])))


def layer_sets(series: Series) -> list[str]:
    """The groups of layers that were repaired, in the order of the blocks; several when run one layer at a time."""
    return sorted({one["repair_layers"] for one in series.cells if one["repair_layers"]}, key=_first_block)


def published(summary: Summary, repair: str, arm: str) -> float | None:
    """The recovery that the paper prints for this model, else for Pythia-410M; None outside its own presets."""
    if summary["preset"] not in PAPER_PRESETS:
        return None
    return published_recovery(repair, arm, published_as(summary["model"]) or PAPER_MODEL)


def amplification_of(series: Series, arm: str) -> Cell | None:
    """How much an arm's distance grows from the injected block to the last one."""
    return series.cell(measure="amplification", arm=arm)


def _has(one: Cell, wanted: Mapping[str, object]) -> bool:
    return all(one.get(key) == value for key, value in wanted.items())


def _order(one: Series, summary: Summary) -> tuple[object, ...]:
    positions = POSITIONS.index(one.positions) if one.positions in POSITIONS else len(POSITIONS)
    of = [None, loss_measure(summary), "accuracy", "margin"]
    rank = of.index(one.of) if one.of in of else len(of)
    layers = (_first_block(one.layers), one.layers or "")
    return (TASKS.index(one.task), rank, one.noise or "", positions, *layers, one.delta or 0.0)


def _first_block(layers: str | None) -> int:
    digits = (layers or "").replace(",", "-").split("-")[0]
    return int(digits) if digits.isdigit() else -1
