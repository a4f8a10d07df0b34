"""Rows of a made-up sweep with known damages, in the columns of a real one."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pyarrow as pa

from polarlens.perturbation.policy import MATCHED, NOTEBOOK, PAPER
from polarlens.rows.schema import COMMON

Damage = Callable[[str, float], float]  # (arm, delta) -> mean damage

POLICIES = {
    "matched": {
        "matched": {**MATCHED.as_dict(), "across_members": None},
        "matched-common": MATCHED.as_dict(),
        "matched-independent": MATCHED.with_levels(across_members="independent").as_dict(),
    },
    "paper": {"paper": {**PAPER.as_dict(), "across_members": None}, "paper-independent": PAPER.as_dict()},
    "notebook": {"notebook": {**NOTEBOOK.as_dict(), "across_members": None}, "notebook-pairs": NOTEBOOK.as_dict()},
}


def frame(rows: list[dict]) -> pd.DataFrame:
    """Through the Arrow schema and back, as rows read from disk are."""
    defaults = dict.fromkeys(COMMON.names)
    table = pa.Table.from_pylist([{**defaults, "model": "m", "experiment": "sweep", **row} for row in rows], COMMON)
    return table.to_pandas()


def text(item: str, nll: float, n_tokens: int = 10, **more: object) -> dict:
    return {"task": "loss", "dataset": "t", "item": item, "arm": "clean", "delta": 0.0} | {
        "cluster": item,
        "nll": nll,
        "n_tokens": n_tokens,
        **more,
    }


def pair(item: str, good: float, bad: float, **more: object) -> dict:
    return {"task": "pairs", "dataset": "p", "item": item, "arm": "clean", "delta": 0.0} | {
        "cluster": item,
        "logp_good": good,
        "logp_bad": bad,
        "n_tokens_good": 5,
        "n_tokens_bad": 5,
        **more,
    }


def moved(clean: dict, arm: str, delta: float, **more: object) -> dict:
    """A perturbed row of the item of `clean`."""
    common = {"arm": arm, "delta": delta, "delta_mode": "relative", "layers": "8-15", "positions": "all", "seed": 0}
    tokens = {"eligible": 10, "infeasible": 0, "realised_delta_mean": delta}
    policy = {"policy_id": "matched" if clean["task"] == "loss" else "matched-common"}
    return {**clean, **common, **tokens, **policy, **more}


def controls(clean: dict, **more: object) -> list[dict]:
    """Both arms at delta = 0."""
    same = {"delta": 0.0, "seed": None, "sign": None, "infeasible": None, "realised_delta_mean": None, **more}
    return [moved(clean, arm, **same, kl=0.0 if clean["task"] == "loss" else None) for arm in ("magnitude", "angular")]


def sweep(
    loss: Damage | None = None,
    drop: Damage | None = None,
    *,
    preset: str = "matched",
    deltas: tuple[float, ...] = (0.05, 0.1, 0.2),
    n_texts: int = 40,
    n_pairs: int = 120,
    seeds: int = 2,
    layers: tuple[str, ...] = ("8-15",),
    positions: tuple[str, ...] = ("all",),
    delta_mode: str = "relative",
    clean_accuracy: float = 0.95,
    phenomena: tuple[str, ...] = ("regular",),
    noise: float = 0.1,
    drop_under: dict[str, Damage] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """A whole sweep: `loss` nats per token and `drop` points of accuracy as functions of arm and delta.

    drop_under: policy_id -> another `drop` under that pair policy.
    """
    rng = np.random.default_rng(seed)
    ids = list(POLICIES[preset])
    signs = (1, -1) if preset == "matched" else (None,)
    rows: list[dict] = []

    def conditions() -> Iterator[dict]:
        for where in positions:
            for block in layers:
                for k in range(seeds):
                    for sign in signs:
                        yield {"positions": where, "layers": block, "seed": k, "sign": sign, "delta_mode": delta_mode}

    if loss is not None:
        for i in range(n_texts):
            tokens = int(rng.integers(8, 64))
            clean = text(f"t{i}", tokens * (4.0 + 0.3 * rng.standard_normal()), tokens)
            rows += [clean, *controls(clean, delta_mode=delta_mode)]
            size = rng.gamma(4.0, 0.25)
            for where in conditions():
                for arm in ("magnitude", "angular"):
                    for delta in deltas:
                        damage = loss(arm, delta) * tokens * (size + noise * rng.standard_normal())
                        changed = {"nll": clean["nll"] + damage, "kl": abs(damage), "policy_id": ids[0]}
                        rows.append(moved(clean, arm, delta, **changed, **where))
    if drop is not None:
        for i in range(n_pairs):
            right = rng.random() < clean_accuracy
            kind = {"phenomenon": phenomena[i % len(phenomena)]}
            clean = pair(f"p{i}", -20.0, -20.0 - (2.0 if right else -2.0), **kind)
            rows += [clean, *controls(clean, delta_mode=delta_mode)]
            for policy_id in ids[1:]:
                how = (drop_under or {}).get(policy_id, drop)
                for where in conditions():
                    for arm in ("magnitude", "angular"):
                        for delta in deltas:
                            flips = right and rng.random() < how(arm, delta) / 100.0 / clean_accuracy
                            margin = (2.0 if right else -2.0) - 4.0 * flips - 0.1 * delta * rng.random()
                            changed = {"logp_bad": -20.0 - margin, "policy_id": policy_id}
                            rows.append(moved(clean, arm, delta, **changed, **where))
    return frame(rows)


def by_arm(magnitude: float, angular: float) -> Damage:
    """A damage that grows in proportion to delta / 0.1."""
    return lambda arm, delta: (angular if arm == "angular" else magnitude) * delta / 0.1
