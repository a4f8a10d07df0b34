"""A made-up `compare.json`: two models or more with numbers that differ everywhere."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from made_up import manifest, summary

NORMS = ("layernorm", "rmsnorm", "unknown")


def document(models: Sequence[str] = ("org/one", "two.gguf"), *, defined: bool = True, **more: Any) -> dict[str, Any]:
    """The k-th model has k + 1 million parameters; contrasts are between summaries of `made_up`."""
    runs = [_run(name, k, **more) for k, name in enumerate(models)]
    contrasts = [
        one
        for a, b in combinations(runs, 2)
        for one in _contrasts(a["model"], b["model"], defined, sorted({e["delta"] for e in a["contrasts"]}))
    ]
    blank = {"measured": None, "ci95": None, "size_agrees": None, "delta": None, "by_model": []}
    claims = [
        {"id": "C8", "claim": "Norms", "paper": None, **blank, "status": "replicates", "why": "it follows the norm"},
        {"id": "C9", "claim": "Scale (ratio)", "paper": 56.8, **blank, "status": "not_run", "why": "no large model"},
    ]
    return {"schema": 1, "runs": runs, "contrasts": contrasts, "claims": claims, "warnings": ["beware of this"]}


def _run(name: str, k: int, **more: Any) -> dict[str, Any]:
    found = summary(("crossed", "reversed", "none")[k % 3], **more)
    kept = ("baseline", "verdict", "claims", "policies", "contrasts", "preset", "delta_mode")
    return {
        "model": name, "path": f"runs/{k}", "source": f"/models/{k}", "family": "llama", "norm_kind": NORMS[k % 3],
        "n_params": (k + 1) * 1_000_000, "n_layers": 3, "width": 32, "layers": "0-1", "blocks": [[0, 1]],
        "state_profile": manifest()["state_profile"], **{key: found.get(key) for key in kept},
    }  # fmt: skip


def _contrasts(a: str, b: str, defined: bool, deltas: Sequence[float]) -> list[dict[str, Any]]:
    out = []
    for task, policy in (("loss", "matched"), ("pairs", "matched-common"), ("pairs", "matched-independent")):
        kinds: list[tuple[str, str | None]] = [("difference", None), ("difference", "angular")]
        kinds += [("difference", "magnitude"), *([("ratio", None)] if task == "loss" else [])]
        for positions in ("all", "no-sinks"):
            for delta in deltas:
                for index, (kind, arm) in enumerate(kinds):
                    size = 10.0 * delta * (index + 1) if task == "pairs" else delta * (index + 1)
                    value = None if kind == "ratio" and not defined else size
                    bounds = None if value is None else [0.9 * value, 1.1 * value]
                    usable = delta < 0.4
                    out.append(
                        {
                            "experiment": "sweep", "model_a": a, "model_b": b, "task": task,
                            "measure": "nll" if task == "loss" else "accuracy", "delta": delta, "layers": None,
                            "layers_a": "0-1", "layers_b": "2-3", "positions": positions, "policy_id": policy,
                            "kind": kind, "arm": arm, "value": value, "ci95": bounds,
                            "ci_simultaneous": bounds if usable else None,
                            "p_holm": 0.0321 if usable and bounds else None, "value_a": 7.31, "value_b": 1.27,
                            "paired": task == "loss", "n_items_a": 31, "n_items_b": 31, "defined": value is not None,
                        }
                    )  # fmt: skip
    return out
