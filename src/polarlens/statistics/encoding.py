"""Encoding against computation: what probes read at a block beside what its perturbation costs, in one table."""

import pandas as pd

from polarlens.statistics.damage import damages
from polarlens.statistics.estimates import Policies, arm_moments, draws_shared
from polarlens.statistics.intervals import Interval
from polarlens.statistics.probing import CLAIM_POOLING, probe_scores

# column -> (target, metric): what is read
ENCODED = {"upos": ("upos", "accuracy"), "depth_gain": ("depth", "gain")}
# column -> (task, measure): what is computed
COMPUTED = {"loss": ("loss", "nll"), "agreement": ("pairs", "accuracy")}
OF = ("direction", "norm")


def encoding_and_computation(
    probing: pd.DataFrame,
    sweep: pd.DataFrame,
    policies: Policies,
    *,
    delta: float,
    positions: str = "all",
    policy_ids: tuple[str, ...] | None = None,
    pooling: str = CLAIM_POOLING,
) -> pd.DataFrame:
    """One line per block that was probed or perturbed on its own, embeddings (-1) first.

    probing: rows of probes. sweep: rows of a sweep with one block at a time. policy_ids: those of the sweep that count,
    at most one per task; all by default.

    Columns `upos_direction`, `upos_norm` (points), `depth_gain_direction`, `depth_gain_norm` (held-out R2), and
    `loss_angular`, `loss_magnitude` (nats per token), `agreement_angular`, `agreement_magnitude` (points): each with
    `NAME_low` and `NAME_high`, its 95 % interval. Null where a block was only probed or only perturbed.
    Raises ValueError when several policies measure one task.
    """
    cells: dict[int, dict[str, float | None]] = {}
    clean = probing[probing["after_arm"].isna() & (probing["pooling"] == pooling) & probing["representation"].isin(OF)]
    for name, (target, metric) in ENCODED.items():
        for score in probe_scores(clean[(clean["target"] == target) & (clean["metric"] == metric)]):
            line = cells.setdefault(int(str(score.named["block"])), {})
            _put(line, f"{name}_{score.named['representation']}", score.estimate.value, score.interval)
    found = damages(sweep)
    for arm in found.arms:
        c = arm.condition
        if c.delta != delta or c.positions != positions or not (c.layers or "").isdigit():
            continue
        if policy_ids is not None and c.policy_id not in policy_ids:
            continue
        for name, (task, measure) in COMPUTED.items():
            if task != c.task:
                continue
            line, column = cells.setdefault(int(c.layers or ""), {}), f"{name}_{arm.arm}"
            if column in line:
                raise ValueError(f"several policies measure {task} at block {c.layers}: name one in policy_ids")
            shared = draws_shared(policies, c.policy_id, arm.arm)
            moments = arm_moments(found, arm, measure, shared_draws=shared)
            if moments is not None:
                estimate = moments.linear(1.0)
                _put(line, column, estimate.value, estimate.interval())
    names = [f"{name}_{of}" for name in ENCODED for of in OF]
    names += [f"{name}_{arm}" for name in COMPUTED for arm in ("angular", "magnitude")]
    columns = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    table = pd.DataFrame.from_dict(cells, orient="index").reindex(columns=columns).astype("Float64")
    return table.sort_index().rename_axis("block")


def _put(line: dict[str, float | None], name: str, value: float | None, interval: Interval | None) -> None:
    line[name] = value
    line[f"{name}_low"], line[f"{name}_high"] = interval or (None, None)
