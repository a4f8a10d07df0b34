"""Outcomes of passes as rows: one dictionary per item, with the columns of `rows.schema`."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from polarlens.data.items import Pair
from polarlens.engine.batching import Batch
from polarlens.engine.conditions import Condition
from polarlens.engine.encoding import Encoded
from polarlens.engine.outcome import Outcome, Realised

Columns = Mapping[str, Any]


def described(condition: Condition) -> dict[str, Any]:
    """The columns that name a condition."""
    return asdict(condition)


def clean_rows(batch: Batch, nll: np.ndarray, base: Columns) -> list[dict[str, Any]]:
    """A row per item of the unperturbed pass. nll: (N,) sums per sequence, nats."""
    return [
        {**base, **item_columns(encoded), "arm": "clean", "delta": 0.0, **_scores(encoded, nll[rows], None)}
        for encoded, rows in with_rows(batch)
    ]


def outcome_rows(batch: Batch, outcome: Outcome, base: Columns) -> list[dict[str, Any]]:
    """A row per item of a perturbed pass. base: the columns that all rows of the pass share."""
    return [
        {
            **base,
            **item_columns(encoded),
            **_scores(encoded, outcome.nll[rows], None if outcome.kl is None else outcome.kl[rows]),
            "eligible": int(outcome.eligible[rows].sum()),
            "infeasible": int(outcome.infeasible[rows].sum()),
            **distances_of(outcome.realised, rows),
        }
        for encoded, rows in with_rows(batch)
    ]


def item_columns(encoded: Encoded) -> dict[str, Any]:
    """The columns that name an item and count its scored tokens."""
    item = encoded.item
    named = {"dataset": item.dataset, "phenomenon": item.phenomenon, "cluster": item.cluster, "item": item.item}
    if isinstance(item, Pair):
        good, bad = encoded.n_scored
        return {**named, "n_tokens_good": good, "n_tokens_bad": bad}
    return {**named, "n_tokens": encoded.n_scored[0]}


def _scores(encoded: Encoded, nll: np.ndarray, kl: np.ndarray | None) -> dict[str, Any]:
    if isinstance(encoded.item, Pair):
        return {"logp_good": -float(nll[0]), "logp_bad": -float(nll[1])}
    return {"nll": float(nll[0]), "kl": None if kl is None else float(kl[0])}


def with_rows(batch: Batch) -> Iterator[tuple[Encoded, slice]]:
    """Each item with its rows of the batch."""
    start = 0
    for encoded in batch.items:
        stop = start + len(encoded.sequences)
        yield encoded, slice(start, stop)
        start = stop


def distances_of(realised: Realised, rows: slice) -> dict[str, float | None]:
    """The columns that say how far the tokens of some rows of a batch were moved."""
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
