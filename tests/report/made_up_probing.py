"""Made-up numbers of probing, in the form that a summary holds them; no two are alike, so that a swap is seen."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from made_up import summary

BLOCKS = (-1, 0, 2, 5)
METRICS = {"upos": ("accuracy", "selectivity")} | dict.fromkeys(
    ("depth", "arc_length"), ("gain", "gain_upos", "r2", "spearman")
)
REPRESENTATIONS = ("full", "norm", "direction", "random-1d", "norm-profile")
BASELINES = (("majority", "upos", "accuracy"), ("confounds", "depth", "r2"), ("confounds+upos", "depth", "r2"))
ARMS = ("magnitude", "angular")


def probing(layers: str = "2-3") -> dict[str, list[dict[str, Any]]]:
    numbers = count(1)
    at = {"experiment": "probing"}
    after = {"delta": 0.1, "layers": layers, "policy_id": "matched", "positions": "all"}
    cells, contrasts = [], []
    for pooling in ("mean", "last"):
        for block, target, metric in _probes():
            probe = {**at, "block": block, "target": target, "metric": metric, "pooling": pooling}
            for name in REPRESENTATIONS:
                cells.append({**probe, "measure": "score", "representation": name, **_mean(numbers, metric)})
                if block < 2 or metric not in ("accuracy", "gain") or target == "arc_length" or "1d" in name:
                    continue
                for measure in ("score", "drop"):
                    for arm in ARMS:
                        one = {**probe, "measure": measure, "representation": name, "after_arm": arm, **after}
                        cells.append({**one, **_mean(numbers, metric)})
                one = {**probe, "measure": "drop", "representation": name, "after_arm": "angular - magnitude", **after}
                contrasts.append({**one, **_value(numbers, metric), "p_holm": 0.017})
            one = {**probe, "measure": "score", "representation": "direction - norm"}
            contrasts.append({**one, **_value(numbers, metric), "p_holm": 0.029})
    for name, target, metric in BASELINES:
        one = {**at, "measure": "score", "representation": name, "target": target, "metric": metric}
        cells.append({**one, **_mean(numbers, metric)})
    for task, policy, measures in (
        ("loss", "matched", ("nll", "nll_item", "kl")),
        ("pairs", "matched-common", ("accuracy", "margin")),
        ("pairs", "matched-independent", ("accuracy", "margin")),
    ):
        for block in BLOCKS[1:]:
            here = {**at, "task": task, "delta": 0.1, "layers": str(block), "positions": "all", "policy_id": policy}
            for measure in measures:
                for arm in ARMS:
                    for phenomenon in (None, "plural"):
                        more = {} if phenomenon is None else {"phenomenon": phenomenon}
                        shown = "accuracy" if measure == "accuracy" else "gain"
                        cells.append({**here, "arm": arm, "measure": measure, **more, **_mean(numbers, shown)})
                one = {**here, "measure": measure, "kind": "difference", "defined": True, "p_holm": 0.041}
                contrasts.append({**one, **_value(numbers, "gain")})
    return {"cells": cells, "contrasts": contrasts}


def probed(*, alone: bool = False, **more: Any) -> dict[str, Any]:
    """A summary with the sweep and probes, or with probes alone."""
    document = summary("inconclusive", tasks=()) if alone else summary(**more)
    for key, entries in probing().items():
        document[key] = document[key] + entries
    return document


def _probes() -> Iterator[tuple[int, str, str]]:
    for block in BLOCKS:
        for target, metrics in METRICS.items():
            for metric in metrics:
                yield block, target, metric


def _mean(numbers: Iterator[int], metric: str) -> dict[str, Any]:
    k = next(numbers)
    value, half = (k / 16, 2.5) if metric in ("accuracy", "selectivity") else (k / 4096, 0.0625)
    return {"mean": value, "ci95": [value - half, value + half], "n_items": 60, "n_clusters": 60, "n_seeds": 2}


def _value(numbers: Iterator[int], metric: str) -> dict[str, Any]:
    found = _mean(numbers, metric)
    return {"kind": "difference", "value": found.pop("mean"), "defined": True, **found}
