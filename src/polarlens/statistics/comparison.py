"""Two runs compared: do the models differ in which of direction and magnitude matters?

The smallest set of contrasts that answers this, per task, displacement, positions and noise policy:

difference, with `arm`     D_a - D_b, the damage by one arm: which model is hurt more by it
difference, `arm` null     (contrast of the arms in a) - (the same in b), with the sign that contrast has within a run:
                           is the balance of direction and magnitude another one?
ratio, of the loss alone   R_a / R_b with R = D_angular / D_magnitude: the same question, free of units and of how
                           fragile a model is; estimated and tested on the log scale

Measures are the verdict's: the loss measure of the preset, and accuracy.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pandas as pd

from polarlens.statistics.contrasts import SIGN, UNUSABLE
from polarlens.statistics.damage import Condition, damages
from polarlens.statistics.estimates import Policies
from polarlens.statistics.floors import usable_conditions
from polarlens.statistics.intervals import Estimate, Interval, as_list
from polarlens.statistics.multiplicity import bonferroni_level, holm
from polarlens.statistics.pairing import Coefficients, Joint, Side, join
from polarlens.statistics.ratio import ratio

ARM: dict[str, Coefficients] = {"angular": (1.0, 0.0), "magnitude": (0.0, 1.0)}


@dataclass(frozen=True)
class _Contrast:
    """kind, arm: as in the entry. values: a's and b's own. estimate: a - b, or log(a / b) for a ratio."""

    kind: str
    arm: str | None
    values: tuple[float | None, float | None]
    estimate: Estimate


@dataclass(frozen=True)
class _Placed:
    """A contrast at its condition (a's); layers: a's and b's."""

    condition: Condition
    layers: tuple[str | None, str | None]
    measure: str
    joint: Joint
    usable: bool
    contrast: _Contrast

    @property
    def series(self) -> tuple[object, ...]:
        """The family of tests it belongs to: all deltas and blocks of one kind of contrast."""
        c = self.condition
        return (c.task, c.positions, c.policy_id, self.measure, self.contrast.kind, self.contrast.arm)


def side(
    name: str, rows: pd.DataFrame, *, policies: Policies, unigram_nll: float | None, loss_measure: str = "nll"
) -> Side:
    """A run as the comparison needs it, from the rows of its sweep."""
    measured = damages(rows)
    return Side(name, measured, usable_conditions(measured, policies, unigram_nll), policies, loss_measure)


def compare_sides(a: Side, b: Side, tasks: Iterable[str] = ("loss", "pairs")) -> list[dict[str, object]]:
    """The contrasts of `compare.json` between two runs: a - b and a / b, at every condition that both have.

    `p_holm` (two-sided) and `ci_simultaneous` are over the deltas (times blocks) usable in both runs, for one kind of
    contrast in one task. `layers` is null where the models' blocks differ; `layers_a` and `layers_b` are always there.
    `paired`: whether the interval is that of differences on the `n_items_a` = `n_items_b` items in common.
    """
    found = [one for task in tasks for one in _placed(a, b, task)]
    families: dict[tuple[object, ...], list[_Placed]] = {}
    for one in found:
        if one.usable:
            families.setdefault(one.series, []).append(one)
    adjusted = {
        id(one): p
        for members in families.values()
        for one, p in zip(members, holm([m.contrast.estimate.p_two_sided() for m in members]), strict=True)
    }
    return [_entry(a.name, b.name, one, len(families.get(one.series, ())), adjusted.get(id(one))) for one in found]


def _placed(a: Side, b: Side, task: str) -> Iterator[_Placed]:
    measure = a.loss_measure if task == "loss" else "accuracy"
    first, second = a.conditions(task), b.conditions(task)
    by_block = any(len({c.layers for c in conditions}) > 1 for conditions in (first, second))
    partners = {_key(c, by_block): c for c in second}
    for condition, arms in first.items():
        partner = partners.get(_key(condition, by_block))
        joint = None if partner is None else join(a, b, arms, second[partner], measure)
        if partner is None or joint is None:
            continue
        usable = a.usable.get(condition, True) and b.usable.get(partner, True)
        for contrast in _contrasts(joint, measure):
            yield _Placed(condition, (condition.layers, partner.layers), measure, joint, usable, contrast)


def _key(c: Condition, by_block: bool) -> tuple[object, ...]:
    """What two runs must share; the blocks only where each of several was perturbed on its own."""
    return (c.positions, c.policy_id, c.delta, c.layers if by_block else None)


def _contrasts(joint: Joint, measure: str) -> Iterator[_Contrast]:
    for arm, (x, y) in [(None, SIGN[measure]), *ARM.items()]:
        values = (joint.a.linear(x, y).value, joint.b.linear(x, y).value)
        yield _Contrast("difference", arm, values, joint.linear((x, y), (-x, -y)))
    if measure != "accuracy":
        yield _Contrast("ratio", None, (ratio(joint.a)[0], ratio(joint.b)[0]), _log_ratio(joint))


def _log_ratio(joint: Joint) -> Estimate:
    """log(R_a / R_b), linearised; undefined unless all four damages have intervals above 0."""
    for name, m in (("a", joint.a), ("b", joint.b)):
        for arm, c in ARM.items():
            interval = m.linear(*c).interval()
            if interval is None or not interval[0] > 0:
                return Estimate(None, why=f"the {arm} damage of model_{name} has no interval above 0")
    assert joint.a.values is not None
    assert joint.b.values is not None
    (a, m_a), (b, m_b) = joint.a.values, joint.b.values
    spread = joint.linear((1.0 / a, -1.0 / m_a), (-1.0 / b, 1.0 / m_b))
    return Estimate(math.log(a / m_a) - math.log(b / m_b), spread.se, spread.df, why=spread.why)


def _entry(model_a: str, model_b: str, one: _Placed, size: int, p_holm: float | None) -> dict[str, object]:
    c, contrast = one.condition, one.contrast
    estimate, on_log = contrast.estimate, contrast.kind == "ratio"

    def shown(interval: Interval | None) -> list[float] | None:
        return as_list(None if interval is None else _exp(interval) if on_log else interval)

    interval = estimate.interval()
    simultaneous = estimate.interval(bonferroni_level(0.95, size)) if one.usable else None
    value = math.exp(estimate.value) if on_log and estimate.value is not None else estimate.value
    entry: dict[str, object] = {
        "experiment": "sweep",
        "model_a": model_a,
        "model_b": model_b,
        "task": c.task,
        "measure": one.measure,
        "delta": c.delta,
        "layers": one.layers[0] if one.layers[0] == one.layers[1] else None,
        "layers_a": one.layers[0],
        "layers_b": one.layers[1],
        "positions": c.positions,
        "policy_id": c.policy_id,
        "kind": contrast.kind,
        "arm": contrast.arm,
        "value": value,
        "ci95": shown(interval),
        "ci_simultaneous": shown(simultaneous),
        "p_holm": p_holm,
        "value_a": contrast.values[0],
        "value_b": contrast.values[1],
        "paired": one.joint.both is not None,
        "n_items_a": one.joint.a.n_items,
        "n_items_b": one.joint.b.n_items,
        "defined": estimate.value is not None,
    }
    reasons = [estimate.why if interval is None else None, None if one.usable else UNUSABLE]
    return {**entry, "why": "; ".join(filter(None, reasons))} if any(reasons) else entry


def _exp(interval: Interval) -> Interval:
    return math.exp(interval[0]), math.exp(interval[1])
