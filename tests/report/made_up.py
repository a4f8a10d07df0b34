"""A summary and a manifest with made-up numbers, in the form that a run writes them."""

from collections.abc import Sequence
from typing import Any

KINDS = (
    "crossed",
    "reversed",
    "same_arm",
    "loss_only",
    "syntax_only",
    "none",
    "mixed",
    "inconclusive",
    "uninformative",
)
FACTORS = {"sign": "random", "plane": {"magnitude": "orthogonal", "angular": "covariance"}}
POLICIES = {
    "matched": {**FACTORS, "across_members": None},
    "matched-common": {**FACTORS, "across_members": "common"},
    "matched-independent": {**FACTORS, "across_members": "independent"},
}
# (task, policy, arm) -> damage at delta = 1; the numbers differ everywhere, so that a swap is seen
SLOPES = {
    ("loss", "matched", "magnitude"): 0.413,
    ("loss", "matched", "angular"): 2.371,
    ("pairs", "matched-common", "magnitude"): 61.7,
    ("pairs", "matched-common", "angular"): 13.9,
    ("pairs", "matched-independent", "magnitude"): 57.3,
    ("pairs", "matched-independent", "angular"): 16.1,
}


def summary(
    kind: str = "crossed",
    *,
    tasks: Sequence[str] = ("loss", "pairs"),
    deltas: Sequence[float] = (0.02, 0.1, 0.5),
    layers: Sequence[str] = ("8-15",),
    positions: Sequence[str] = ("all",),
    intervals: bool = True,
    delta_mode: str | None = "relative",
    **more: object,
) -> dict[str, Any]:
    """Damages are SLOPES times delta (plus a little per block); 95 % intervals are 10 % (damages) or 20 % wide."""
    cells, contrasts = [], []
    for task in tasks:
        for policy in POLICIES:
            if (task, policy, "angular") not in SLOPES:
                continue
            for where in positions:
                for index, block in enumerate(layers):
                    for delta in (0.0, *deltas):
                        at = {"layers": block, "positions": where, "policy_id": policy, "delta": delta}
                        damage = {
                            arm: SLOPES[task, policy, arm] * delta * (1 + 0.01 * index)
                            for arm in ("magnitude", "angular")
                        }
                        for arm, mean in damage.items():
                            for measure, factor in _measures(task):
                                cells.append(_cell(task, arm, measure, mean * factor, intervals, at))
                        if delta > 0:
                            contrasts += _contrasts(task, damage, intervals, at)
    document: dict[str, Any] = {
        "schema": 1, "model": "owner/name", "preset": "matched", "complete": True, "missing_units": 0,
        "policies": POLICIES, "baseline": _baseline(tasks, intervals), "cells": cells, "contrasts": contrasts,
        "claims": _claims(), "verdict": _verdict(kind, deltas, layers), "skipped": [], "warnings": [],
    }  # fmt: skip
    if delta_mode is not None:
        document["delta_mode"] = delta_mode
    return {**document, **more}


def _measures(task: str) -> tuple[tuple[str, float], ...]:
    """Beside the measure that is reported, others that must not be mixed up with it."""
    return (("nll", 1.0), ("nll_item", 1.5), ("kl", 3.0)) if task == "loss" else (("accuracy", 1.0), ("margin", 0.01))


def _interval(value: float, half: float, intervals: bool) -> list[float] | None:
    return [value * (1 - half), value * (1 + half)] if intervals else None


def _cell(task: str, arm: str, measure: str, mean: float, intervals: bool, at: dict[str, Any]) -> dict[str, Any]:
    ci95 = None if at["delta"] == 0 else _interval(mean, 0.1, intervals)
    return {
        "experiment": "sweep", "task": task, "arm": arm, "measure": measure, **at, "mean": mean, "ci95": ci95,
        "ci_simultaneous": None, "n_items": 40, "n_clusters": 40, "n_seeds": 5, "infeasible_share": 0.0,
        "realised_delta_mean": at["delta"] or None,
    }  # fmt: skip


def _contrasts(task: str, damage: dict[str, float], intervals: bool, at: dict[str, Any]) -> list[dict[str, Any]]:
    sign = 1 if task == "loss" else -1
    difference = sign * (damage["angular"] - damage["magnitude"])
    measure = "nll" if task == "loss" else "accuracy"
    common = {"experiment": "sweep", "task": task, "measure": measure, **at, "ci_simultaneous": None, "n_items": 40}
    ratio = damage["angular"] / damage["magnitude"] if intervals else None
    return [
        {
            **common, "kind": "difference", "value": difference, "ci95": _interval(difference, 0.2, intervals),
            "p_holm": 0.0123 if intervals else None, "defined": True,
        },
        {
            **common, "kind": "ratio", "value": ratio, "ci95": _interval(ratio or 0.0, 0.2, intervals),
            "defined": intervals,
        },
    ]  # fmt: skip


def _baseline(tasks: Sequence[str], intervals: bool) -> dict[str, Any]:
    loss = {
        "nll": {"mean": 3.456, "ci95": [3.401, 3.512] if intervals else None},
        "nll_item": {"mean": 3.789, "ci95": [3.701, 3.812] if intervals else None},
        "n_items": 40,
        "n_tokens": 1234,
    }
    pairs = {"accuracy": 91.25, "ci95": [88.5, 94.0] if intervals else None, "n_items": 80, "ties": 3}
    return {"loss": loss if "loss" in tasks else None, "pairs": pairs if "pairs" in tasks else None}


def _claims() -> list[dict[str, Any]]:
    blank = {"measured": None, "ci95": None, "status": "not_run", "size_agrees": None, "delta": None}
    found = [
        {
            "id": "C1", "claim": "Loss (ratio)", "paper": 42.9, "measured": 5.741, "ci95": [4.61, 6.89],
            "status": "replicates", "size_agrees": False, "delta": 0.02, "why": "the stated order holds",
        },
        {
            "id": "C2", "claim": "Agreement (points)", "paper": 18.8, "measured": 4.12, "ci95": None,
            "status": "inconclusive", "size_agrees": None, "delta": 0.1, "why": "one cluster",
        },
    ]  # fmt: skip
    later = [{"id": f"C{n}", "claim": f"Claim {n}", "paper": None, **blank, "why": "not built"} for n in range(3, 10)]
    return found + later


def _verdict(kind: str, deltas: Sequence[float], layers: Sequence[str]) -> dict[str, Any]:
    established = kind not in ("inconclusive", "uninformative")
    tested = [
        {
            "pair_policy": name, "layers": block, "delta": delta, "usable": True, "p_holm": 0.001,
            "kind": ("crossed" if delta < 0.3 else "loss_only") if kind == "mixed" else kind,
            "arm": "angular" if kind == "same_arm" else None,
        }
        for name in ("common", "independent") for block in layers for delta in deltas
    ]  # fmt: skip
    verdict: dict[str, Any] = {
        "kind": kind,
        "deltas": list(deltas) if established else [],
        "by_pair_policy": {"common": kind, "independent": kind},
        "why": "the clean score is at the floor: loss" if kind == "uninformative" else f"{kind} because",
        "positions": "all",
        "loss_measure": "nll",
        "bands": {"points": 2.0, "loss_ratio": 0.9},
        "by_delta": [] if kind == "uninformative" else tested,
    }
    if len(layers) > 1:
        verdict["by_layer"] = {block: {"kind": kind, "deltas": list(deltas), "why": ""} for block in layers}
    return verdict


def manifest(**more: object) -> dict[str, Any]:
    """The parts of a manifest that a report shows."""
    block = {"norm_median": 6.81, "norm_mean": 6.75, "norm_max": 8.94, "sink_share": 0.125}
    energy = {
        "top_token_energy": 0.25,
        "top5_channel_energy": 0.5,
        "participation_ratio": 4.21,
        "participation_ratio_no_sinks": 17.3,
    }
    source = {"spec": "texts.txt", "sha256": "c0ffee", "rows": 42, "items": 40, "skipped": {"blank": 2}}
    return {
        "model": {
            "name": "owner/name", "family": "gpt_neox", "norm_kind": "layernorm", "n_params": 46176, "n_layers": 3,
            "width": 32, "window": None, "dtype": "float32", "weights_sha256": "beef01",
            "source": {"kind": "hub", "location": "owner/name", "revision": None, "quantisation": None},
        },
        "tokenizer": {"sha256": "beef02", "size": 300, "bos": {"token": None, "id": None, "origin": "none"}},
        "command": "polarlens run owner/name --text texts.txt",
        "configuration": {"preset": "matched", "delta_mode": "relative", "limit": None, "quiet": False},
        "seeds": [0, 1, 2],
        "data": {"loss": {"sources": [source], "items": 40, "skipped": {}, "share_cut": 0.0}},
        "unigram_nll": None,
        "state_profile": {"task": "loss", "blocks": [{"block": n, **block, **energy} for n in range(3)]},
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "hardware": {"system": "Linux", "cpus": 2, "accelerator": None},
        "started": "2026-01-01T00:00:00+00:00", "updated": "2026-01-01T00:10:00+00:00", "wall_seconds": 600.4,
        "peak_memory_bytes": 3 * 2**20,
        **more,
    }  # fmt: skip
