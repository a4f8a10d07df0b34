"""The sweep: every condition on every item of a unit, as rows."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polarlens.data.items import Pair
from polarlens.engine.batching import Batch, batches
from polarlens.engine.conditions import Condition, Protocol
from polarlens.engine.encoding import Encoded
from polarlens.engine.engine import Engine
from polarlens.engine.outcome import Outcome, Realised
from polarlens.errors import NumericalError
from polarlens.perturbation.policy import ARMS, Arm
from polarlens.protocol.layers import format_layers
from polarlens.protocol.plan import ItemKey, Unit
from polarlens.protocol.progress import Advance

# The clean pass sees an eighth of the budget, so that conditions can be stacked eight deep on it.
STACK = 8
TOLERANCE = 0.01


@dataclass(frozen=True)
class Labels:
    """Columns that are the same in all rows of a run."""

    model: str
    delta_mode: str


def sweep_rows(
    engine: Engine,
    unit: Unit,
    items: Mapping[ItemKey, Encoded],
    labels: Labels,
    *,
    has_bos: bool,
    batch_tokens: int,
    allow_mismatch: bool,
    advance: Advance,
) -> list[dict[str, Any]]:
    """Rows of one unit; `advance` is told the real tokens of every pass that is done.

    Raises NumericalError when the mean realised distance of an arm at a layer is more than 1 % from what was asked and
    `allow_mismatch` is off.
    """
    realised: dict[tuple[Condition, int], list[tuple[float, float]]] = defaultdict(list)
    rows: list[dict[str, Any]] = []
    chosen = [items[key] for key in unit.items]
    for batch in batches(chosen, max(1, batch_tokens // STACK), has_bos=has_bos):
        clean, tokens = engine.clean(batch), int(batch.mask.sum())
        advance(tokens)
        if unit.work.clean:
            rows += _clean_rows(batch, batch.sum_rows(clean.nll).numpy(), unit, labels)
        if unit.work.control:
            policy_id = next(iter(engine.protocol.policies))
            outcome = engine.control(batch, clean)
            advance(tokens)
            for arm in ARMS:
                control = {"arm": arm, "delta": 0.0, "policy_id": policy_id, "positions": "all"}
                rows += _outcome_rows(batch, outcome, unit, labels, control)
        for condition, outcome in engine.perturbed(batch, clean, sorted_conditions(unit), batch_tokens):
            described = {
                "arm": condition.arm, "delta": condition.delta, "policy_id": condition.policy_id,
                "positions": condition.positions, "seed": condition.seed, "sign": condition.sign,
            }  # fmt: skip
            rows += _outcome_rows(batch, outcome, unit, labels, described)
            advance(tokens)
            for layer, sums in outcome.realised.by_layer.items():
                realised[condition, layer].append(sums)
    check_realised(realised, engine.protocol, allow_mismatch=allow_mismatch)
    return rows


def sorted_conditions(unit: Unit) -> list[Condition]:
    """The unit's conditions in a fixed order."""
    return sorted(
        unit.work.conditions, key=lambda c: (c.policy_id, c.positions, c.arm, c.delta, c.seed, -(c.sign or 0))
    )


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


def _base(encoded: Encoded, unit: Unit, labels: Labels) -> dict[str, Any]:
    item = encoded.item
    row: dict[str, Any] = {
        "model": labels.model, "experiment": unit.experiment, "task": unit.task, "dataset": item.dataset,
        "phenomenon": item.phenomenon, "cluster": item.cluster, "item": item.item,
        "delta_mode": labels.delta_mode, "layers": format_layers(unit.layers),
    }  # fmt: skip
    if isinstance(item, Pair):
        row["n_tokens_good"], row["n_tokens_bad"] = encoded.n_scored
    else:
        (row["n_tokens"],) = encoded.n_scored
    return row


def _scores(encoded: Encoded, nll: np.ndarray, kl: np.ndarray | None) -> dict[str, Any]:
    if isinstance(encoded.item, Pair):
        return {"logp_good": -float(nll[0]), "logp_bad": -float(nll[1])}
    return {"nll": float(nll[0]), "kl": None if kl is None else float(kl[0])}


def _with_rows(batch: Batch) -> Iterator[tuple[Encoded, slice]]:
    """Each item with its rows of the batch."""
    start = 0
    for encoded in batch.items:
        stop = start + len(encoded.sequences)
        yield encoded, slice(start, stop)
        start = stop


def _clean_rows(batch: Batch, nll: np.ndarray, unit: Unit, labels: Labels) -> list[dict[str, Any]]:
    return [
        _base(encoded, unit, labels) | {"arm": "clean", "delta": 0.0} | _scores(encoded, nll[rows], None)
        for encoded, rows in _with_rows(batch)
    ]


def _outcome_rows(
    batch: Batch, outcome: Outcome, unit: Unit, labels: Labels, described: Mapping[str, Any]
) -> list[dict[str, Any]]:
    return [
        _base(encoded, unit, labels)
        | dict(described)
        | _scores(encoded, outcome.nll[rows], None if outcome.kl is None else outcome.kl[rows])
        | {"eligible": int(outcome.eligible[rows].sum()), "infeasible": int(outcome.infeasible[rows].sum())}
        | _distances(outcome.realised, rows)
        for encoded, rows in _with_rows(batch)
    ]


def _distances(realised: Realised, rows: slice) -> dict[str, float | None]:
    count = int(realised.first_count[rows].sum())
    counts = {"moved": count, "saturated": int(realised.saturated[rows].sum())}
    if not count:
        return {**counts, "realised_delta_mean": None, "realised_delta_max_error": None, "norm_change_max": None}
    return {
        **counts,
        "realised_delta_mean": float(realised.first_sum[rows].sum() / count),
        "realised_delta_max_error": float(realised.max_error[rows].max()),
        "norm_change_max": float(realised.norm_change[rows].max()),
    }
