"""The sweep: every condition on every item, as rows."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from polarlens.engine.conditions import Condition, Protocol
from polarlens.errors import NumericalError
from polarlens.perturbation.policy import ARMS, Arm
from polarlens.protocol.as_rows import clean_rows, described, outcome_rows
from polarlens.protocol.bench import Bench
from polarlens.protocol.config import grid
from polarlens.protocol.plan import Unit, Wanted, full_cross
from polarlens.protocol.prepared import Prepared
from polarlens.protocol.presets import POLICIES
from polarlens.protocol.progress import Advance

TOLERANCE = 0.01


def wanted(prepared: Prepared) -> list[Wanted]:
    """Both arms at every delta, for every task with data."""
    config = prepared.config
    return [
        Wanted(
            "sweep",
            task.task,
            prepared.groups,
            task.keys,
            full_cross(
                POLICIES[config.preset][task.task],
                config.positions or ("all",),
                grid(config, task.task),
                range(config.seeds),
            ),
        )
        for task in prepared.tasks
    ]


def rows(bench: Bench, unit: Unit, advance: Advance) -> list[dict[str, Any]]:
    """Rows of one unit; `advance` is told the real tokens of every pass that is done.

    Raises NumericalError when the mean realised distance of an arm at a layer is more than 1 % from what was asked and
    that is not allowed.
    """
    engine = bench.engine(unit, POLICIES[bench.config.preset][unit.task])
    realised: dict[tuple[Condition, int], list[tuple[float, float]]] = defaultdict(list)
    out: list[dict[str, Any]] = []
    for batch in bench.batches(unit):
        clean, tokens = engine.clean(batch), int(batch.mask.sum())
        advance(tokens)
        if unit.work.clean:
            out += clean_rows(batch, batch.sum_rows(clean.nll).numpy(), bench.base(unit))
        if unit.work.control:
            policy_id = next(iter(engine.protocol.policies))
            outcome = engine.control(batch, clean)
            advance(tokens)
            for arm in ARMS:
                control = {"arm": arm, "delta": 0.0, "policy_id": policy_id, "positions": "all"}
                out += outcome_rows(batch, outcome, bench.base(unit) | control)
        conditions = [asked.condition for asked in unit.in_order]
        for condition, outcome in engine.perturbed(batch, clean, conditions, bench.batch_tokens):
            out += outcome_rows(batch, outcome, bench.base(unit) | described(condition))
            advance(tokens)
            for layer, sums in outcome.realised.by_layer.items():
                realised[condition, layer].append(sums)
    check_realised(realised, engine.protocol, allow_mismatch=bench.allow_mismatch)
    return out


def check_realised(
    realised: Mapping[tuple[Condition, int], list[tuple[float, float]]], protocol: Protocol, *, allow_mismatch: bool
) -> None:
    """Per (layer, arm, delta) the mean realised distance must be within 1 % of the mean asked, and of the other arm's.

    Raises NumericalError naming the layer and arm.
    """
    totals: dict[tuple[Arm, float, int], np.ndarray] = defaultdict(lambda: np.zeros(2))
    for (condition, layer), sums in realised.items():
        totals[condition.arm, condition.delta, layer] += np.sum(sums, axis=0)
    if allow_mismatch:
        return
    for (arm, delta, layer), (got, asked) in totals.items():
        if asked > 0 and abs(got / asked - 1) > TOLERANCE:
            raise _mismatch(f"the {arm} arm moved tokens by {100 * (got / asked - 1):+.2f} % against", delta, layer)
    for delta in {delta for _, delta, _ in totals}:
        first = protocol.layers[0]
        pair = [totals[arm, delta, first] for arm in ARMS if (arm, delta, first) in totals]
        means = [got / asked for got, asked in pair if asked > 0]
        if len(means) == len(ARMS) and abs(means[0] / means[1] - 1) > TOLERANCE:
            raise _mismatch(f"the arms' distances differ by {100 * (means[0] / means[1] - 1):+.2f} % at", delta, first)


def _mismatch(what: str, delta: float, layer: int) -> NumericalError:
    fix = "Use --dtype float32, a larger delta, or --allow-mismatch to measure it all the same."
    return NumericalError(f"{what} delta {delta:g} asked", where=f"block {layer}", fix=fix)
