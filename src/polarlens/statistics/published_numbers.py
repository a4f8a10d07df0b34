"""The published numbers (arXiv 2602.11169 and its notebook) beside a run's own, for the presets that follow them.

`size_agrees` says whether a number, as it was before rounding, may lie in the 99 % interval of the measured one: draws
are new, and so may items be. It is null where the published setting is another one: model, perturbed blocks, or what
the numbers were measured on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from polarlens.statistics.contrasts import Comparison
from polarlens.statistics.damage import ArmDamage, Damages
from polarlens.statistics.estimates import Policies, arm_moments, clean_moments, draws_shared
from polarlens.statistics.intervals import Interval, Moments, as_list, on_the_scale
from polarlens.statistics.published import PAPER_MODEL, PAPER_PRESETS, model_name
from polarlens.statistics.ratio import ratio, ratio_interval
from polarlens.statistics.recovery import recovery

RecoveryKey = tuple[str, str, float]
"""(repair, arm, delta)."""


@dataclass(frozen=True)
class Setting:
    """A model as it was published. layers: the perturbed blocks. apart: why sizes cannot agree, None where they can."""

    layers: str
    apart: str | None = None


@dataclass(frozen=True)
class Number:
    """One published number.

    what: `loss` (nats, mean of per-text means), `accuracy` (points), `damage` (of either), `ratio` (of loss damages,
    angular / magnitude) or `recovery` (fraction of the loss damage). rounded: half a unit of its last digit. delta:
    absolute, None for the clean model.
    """

    model: str
    what: str
    value: float
    rounded: float
    delta: float | None = None
    arm: str | None = None
    task: str = "loss"
    repair: str | None = None


SETTINGS: Mapping[str, Setting] = {
    PAPER_MODEL: Setting("8-15"),
    "pythia-1.4b": Setting("8-15"),
    "opt-1.3b": Setting("8-15"),
    "tinyllama": Setting("4-7", "published from ten hand-written sentences, in float16"),
}

# delta -> (angular, magnitude, their ratio before rounding)
_LOSS = {
    1.0: (0.368, 0.009, 42.87),
    2.0: (0.983, 0.042, 23.21),
    5.0: (3.757, 0.700, 5.37),
    10.0: (7.061, 3.262, 2.16),
    15.0: (7.718, 4.600, 1.68),
    20.0: (7.750, 5.433, 1.43),
}
_DROPS = {5.0: (1.6, 20.4), 10.0: (12.4, 33.5), 15.0: (22.1, 36.0)}  # delta -> (angular, magnitude), points
_TINYLLAMA = {1.0: (0.119, 0.645), 2.0: (0.808, 3.823), 5.0: (5.760, 4.956)}
# Larger models: ratios at delta 2, 5 and 10, and what attention repair recovers (angular, magnitude) at delta 5.
_RATIOS = {"pythia-1.4b": (56.8, 24.4, 6.0), "opt-1.3b": (32.7, 19.1, 2.4)}
_ATTENTION = {PAPER_MODEL: (0.284, 0.152), "pythia-1.4b": (0.238, 0.020), "opt-1.3b": (0.270, 0.344)}
_NORM = {PAPER_MODEL: (0.137, 0.299)}
_ARMS = ("angular", "magnitude")


def _numbers() -> Iterator[Number]:
    yield Number(PAPER_MODEL, "loss", 4.107, 5e-4)
    yield Number(PAPER_MODEL, "accuracy", 89.5, 0.05, task="pairs")
    for delta, (angular, magnitude, quotient) in _LOSS.items():
        yield Number(PAPER_MODEL, "damage", angular, 5e-4, delta, "angular")
        yield Number(PAPER_MODEL, "damage", magnitude, 5e-4, delta, "magnitude")
        yield Number(PAPER_MODEL, "ratio", quotient, 5e-3, delta)
    for task, model, rounded, table in (("pairs", PAPER_MODEL, 0.05, _DROPS), ("loss", "tinyllama", 5e-4, _TINYLLAMA)):
        for delta, values in table.items():
            for arm, value in zip(_ARMS, values, strict=True):
                yield Number(model, "damage", value, rounded, delta, arm, task)
    for model, quotients in _RATIOS.items():
        for delta, value in zip((2.0, 5.0, 10.0), quotients, strict=True):
            yield Number(model, "ratio", value, 0.05, delta)
    for repair, recoveries in (("attention", _ATTENTION), ("norm", _NORM)):
        for model, values in recoveries.items():
            for arm, value in zip(_ARMS, values, strict=True):
                yield Number(model, "recovery", value, 5e-4, 5.0, arm, repair=repair)


NUMBERS: tuple[Number, ...] = tuple(_numbers())


def published_as(model: str) -> str | None:
    """The published model that a name is of, or None: its last part, whatever the owner and revision."""
    name = model_name(model)
    return next((key for key in SETTINGS if name == key or (key == "tinyllama" and name.startswith(key))), None)


def published_recovery(repair: str, arm: str, model: str = PAPER_MODEL) -> float | None:
    """What a repair gave back in the published model, a fraction of the loss damage; None where that was not told."""
    wanted = (model, "recovery", repair, arm)
    return next((one.value for one in NUMBERS if (one.model, one.what, one.repair, one.arm) == wanted), None)


def published_entries(
    measured: Damages,
    compared: Sequence[Comparison],
    recoveries: Mapping[RecoveryKey, Moments],
    *,
    model: str,
    preset: str,
    delta_mode: str | None,
    positions: str | None,
    policies: Policies,
) -> list[dict[str, object]]:
    """Every published number of this model (of Pythia-410M for any other) with the run's own; empty in other presets.

    recoveries: moments of (repaired, unrepaired) damages, of the mean of per-text means.
    """
    if preset not in PAPER_PRESETS or delta_mode != "absolute":
        return []
    own = published_as(model)
    ran = next((one.condition.layers for one in compared), None)
    apart = _apart(own, ran)
    found = _Found(measured, compared, recoveries, positions, policies)
    out: list[dict[str, object]] = []
    for one in NUMBERS:
        if one.model != (own or PAPER_MODEL):
            continue
        value, ci95, at99, why = found.number(one)
        agrees = None if apart or at99 is None else at99[0] - one.rounded <= one.value <= at99[1] + one.rounded
        named = {"model": one.model, "what": one.what, "task": one.task, "delta": one.delta, "arm": one.arm}
        numbers = {"paper": one.value, "measured": value, "ci95": as_list(ci95), "size_agrees": agrees}
        out.append({**named, "repair": one.repair, **numbers, "why": why or (apart if agrees is None else None)})
    return out


def _apart(own: str | None, layers: str | None) -> str | None:
    if own is None:
        return "another model than the published ones"
    setting = SETTINGS[own]
    if layers != setting.layers:
        return f"published for layers {setting.layers}"
    return setting.apart


@dataclass(frozen=True)
class _Found:
    """Where the run's own numbers are."""

    measured: Damages
    compared: Sequence[Comparison]
    recoveries: Mapping[RecoveryKey, Moments]
    positions: str | None
    policies: Policies

    def number(self, one: Number) -> tuple[float | None, Interval | None, Interval | None, str | None]:
        """(value, 95 % interval, 99 % interval, why there is none)."""
        m = self._moments(one)
        if m is None:
            return None, None, None, "not measured here"
        if one.what in ("ratio", "recovery"):
            value, why = ratio(m)
            if value is None:
                return None, None, None, why
            ends = [ratio_interval(m, level)[0] for level in (0.95, 0.99)]
            if one.what == "recovery":
                shown = recovery(m)
                return shown.value, shown.ci95, _turned(ends[1]), shown.why
            return value, ends[0], ends[1], ratio_interval(m)[1]
        estimate = m.linear(1.0)
        ends = [estimate.interval(level) for level in (0.95, 0.99)]
        if one.what == "accuracy":
            ends = [on_the_scale(interval) for interval in ends]
        return estimate.value, ends[0], ends[1], estimate.why

    def _moments(self, one: Number) -> Moments | None:
        measure = "nll_item" if one.task == "loss" else "accuracy"
        if one.delta is None:
            return clean_moments(self.measured, one.task, measure)
        if one.repair is not None:
            return self.recoveries.get((one.repair, one.arm or "", one.delta))
        if one.what == "ratio":
            here = (c for c in self.compared if c.measure == measure and c.phenomenon is None)
            wanted = (self.positions, one.delta)
            return next((c.moments for c in here if (c.condition.positions, c.condition.delta) == wanted), None)
        arm = next((a for a in self.measured.arms if self._is(a, one)), None)
        if arm is None:
            return None
        shared = draws_shared(self.policies, arm.condition.policy_id, arm.arm)
        return arm_moments(self.measured, arm, measure, shared_draws=shared)

    def _is(self, arm: ArmDamage, one: Number) -> bool:
        c = arm.condition
        return (c.task, c.positions, c.delta, arm.arm) == (one.task, self.positions, one.delta, one.arm)


def _turned(ends: Interval | None) -> Interval | None:
    """The interval of 1 - x."""
    return None if ends is None else (1.0 - ends[1], 1.0 - ends[0])
