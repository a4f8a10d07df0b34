"""Made-up numbers of probing, in the form that a summary holds them."""

from typing import Any

ARMS = ("magnitude", "angular")
BLOCKS = (-1, 0, 3)
NUMBERS = {"n_items": 60, "n_clusters": 60}
SCORES = {"norm": 31.7, "direction": 92.3, "full": 93.1, "norm-profile": 55.5, "random-1d": 22.9}
GAINS = {"norm": 0.0123, "direction": 0.287, "full": 0.281, "norm-profile": 0.107, "random-1d": 0.001}
MAJORITY = 17.6
ALONE = {"magnitude": 0.0021, "angular": 0.0043}


def probing(*, alone: bool = True) -> dict[str, list[dict[str, Any]]]:
    """Scores grow with the block; `alone`: with damages of single blocks."""
    cells, contrasts = [], []
    base = {"experiment": "probing", "measure": "score"}
    majority = {"representation": "majority", "target": "upos", "metric": "accuracy", "mean": MAJORITY}
    cells.append({**base, **majority, "ci95": [16.1, 19.2], **NUMBERS, "n_draws": 1})
    for pooling in ("last", "mean"):
        for block in BLOCKS:
            for target, metric, values in (("upos", "accuracy", SCORES), ("depth", "gain", GAINS)):
                at = {"block": block, "target": target, "metric": metric, "pooling": pooling}
                more = (0.01 if metric == "gain" else 1) * (block + (5 if pooling == "mean" else 0))
                for name, value in values.items():
                    mean, half = value + more, value / 10
                    named = {**at, "representation": name, **NUMBERS, "n_draws": 1}
                    cells.append({**base, **named, "mean": mean, "ci95": [mean - half, mean + half]})
                    if name in ("norm", "direction", "full") and block == 3:
                        contrasts += _drops(named, value, cells)
                difference = values["direction"] - values["norm"]
                entry = {**base, **at, "representation": "direction - norm", "kind": "difference", "value": difference}
                contrasts.append({**entry, "ci95": [difference / 2, 2 * difference], "p_holm": 0.0123, **NUMBERS})
    if alone:
        for task, measure in (("loss", "nll"), ("pairs", "accuracy")):
            for block in (0, 3):
                for arm, damage in ALONE.items():
                    mean = damage * (1 + block) * (1 if task == "loss" else 1000)
                    at = {"task": task, "layers": str(block), "positions": "all", "policy_id": "matched", "delta": 0.1}
                    cell = {"experiment": "probing", "measure": measure, **at, "arm": arm, "mean": mean}
                    cells.append({**cell, "ci95": [mean * 0.9, mean * 1.1], **NUMBERS, "n_seeds": 3})
    return {"cells": cells, "contrasts": contrasts}


def _drops(named: dict[str, Any], value: float, cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    where = {"experiment": "probing", "measure": "drop", "layers": "3-4", "delta": 0.1, **named}
    lost = {"magnitude": value / 7, "angular": value / 3}
    for arm, mean in lost.items():
        cells.append({**where, "after_arm": arm, "mean": mean, "ci95": [mean / 2, mean * 2]})
    difference = lost["angular"] - lost["magnitude"]
    entry = {**where, "after_arm": "angular - magnitude", "kind": "difference", "value": difference}
    return [{**entry, "ci95": None, "p_holm": None, "why": "too few sentences"}]
