"""The small-delta limit of both arms, block by block, from second derivatives per item and probe.

Per item and delta², summed over tokens: magnitude radial/2, angular (tangential - gradient)/2, with the rows' columns
`radial`, `tangential` (one value per probe) and `gradient` (exact). Probes are drawn per item, so an item is averaged
over its probes and clustered like every other measure; what the probes add to the variance is reported apart.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from polarlens.perturbation.policy import ARMS
from polarlens.statistics.estimates import Policies, draws_shared
from polarlens.statistics.intervals import Array, Estimate, IntArray, Moments, as_list, moments
from polarlens.statistics.multiplicity import bonferroni_level, holm
from polarlens.statistics.ratio import ratio, ratio_interval

EXPERIMENT, MEASURE = "curvature", "curvature"
WEIGHTED = ("nll",)  # ratio of sums over tokens; `nll_item` is a mean over items
NAMES = ("positions", "policy_id")
PARTS = ("angular", "magnitude", "tangential", "gradient")  # the order of the moments


@dataclass(frozen=True)
class BlockCurvature:
    """One block under one choice of positions.

    moments: angular, magnitude and the two parts of angular (tangential - gradient), in nats per token and delta².
    probe_share: of the variances of the angular and the magnitude mean, the share that is Hutchinson's own; None with
    one probe, where it cannot be told.
    """

    block: int
    positions: str | None
    policy_id: str | None
    moments: Moments
    probe_share: tuple[float | None, float | None]
    n_probes: int

    @property
    def difference(self) -> Estimate:
        """Angular minus magnitude: the loss difference per delta² as delta goes to 0."""
        return self.moments.linear(1.0, -1.0, 0.0, 0.0)

    @property
    def limit(self) -> Moments:
        """Moments (angular, magnitude) of the ratio R in the limit."""
        return self.moments.combined((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0))

    @property
    def family(self) -> tuple[str | None, str | None]:
        """Blocks of one family are tested together."""
        return self.positions, self.policy_id


def block_curvatures(
    rows: pd.DataFrame, loss_measure: str = "nll", policies: Policies | None = None
) -> list[BlockCurvature]:
    """The blocks in order, from rows with `item, dataset, cluster, block, positions, policy_id, seed, n_tokens, radial,
    tangential, gradient`: one per item, block, positions and probe (`seed`); the last three in nats per delta².

    loss_measure: `nll` (sums over sums of tokens) or `nll_item` (mean of per-item means). policies: id -> levels, which
    say where items share their draws. Rows with a number that is missing or not finite are left out.
    """
    numbers = rows[["n_tokens", "radial", "tangential", "gradient"]].to_numpy(np.float64, na_value=np.nan)
    rows = rows[np.isfinite(numbers).all(axis=1) & (numbers[:, 0] > 0)]
    groups = rows.groupby(["policy_id", "positions", "block"], dropna=False, sort=True)
    return [_block(part, loss_measure, policies or {}) for _, part in groups]


def _block(rows: pd.DataFrame, loss_measure: str, policies: Policies) -> BlockCurvature:
    where, policy_id = (value if isinstance(value := rows[name].iloc[0], str) else None for name in NAMES)
    shared = any(draws_shared(policies, policy_id, arm) for arm in ARMS)
    dataset = rows["dataset"].where(rows["dataset"].notna(), "") if "dataset" in rows else pd.Series("", rows.index)
    name = dataset.astype(str) + "\n" + rows["item"].astype(str)
    codes, names = pd.factorize(name, sort=True)
    codes = codes.astype(np.int64)
    first = np.unique(codes, return_index=True)[1]
    cluster = rows["cluster"].where(rows["cluster"].notna(), name) if "cluster" in rows else name
    tokens = rows["n_tokens"].to_numpy(np.float64)
    per = np.ones(len(rows)) if loss_measure in WEIGHTED else tokens
    radial, tangential, gradient = (
        rows[part].to_numpy(np.float64) / per / 2.0 for part in ("radial", "tangential", "gradient")
    )
    values = np.stack([tangential - gradient, radial, tangential, -gradient])
    count = np.bincount(codes, minlength=len(names)).astype(np.float64)
    column, seeds = pd.factorize(rows["seed"], sort=True)
    if shared:  # a draw is a factor crossed with items: one column each
        means = np.full((len(PARTS), len(names), len(seeds)), np.nan)
        means[:, codes, column] = values
    else:
        means = np.stack([np.bincount(codes, value, minlength=len(names)) / count for value in values])
    weights = tokens[first] if loss_measure in WEIGHTED else np.ones(len(names))
    found = moments(means, weights, cluster.to_numpy(object)[first].astype(str), shared_draws=shared)
    own = [_probe_variance(value, codes, count, float(weights.mean())) for value in values[:2]]
    shares = [_share(variance, found, k) for k, variance in enumerate(own)]
    block = int(rows["block"].iloc[0])
    return BlockCurvature(block, where, policy_id, found, (shares[0], shares[1]), len(seeds))


def _probe_variance(values: Array, codes: IntArray, count: Array, mean_weight: float) -> float | None:
    """Variance of the estimate that comes from the probes: sum over items of s_i²/P_i, in units of the estimate."""
    if not (count > 1).all():
        return None
    mean = np.bincount(codes, values, minlength=len(count)) / count
    within = np.bincount(codes, (values - mean[codes]) ** 2, minlength=len(count)) / (count - 1)
    return float((within / count).sum()) / (len(count) * mean_weight) ** 2


def _share(variance: float | None, found: Moments, k: int) -> float | None:
    total = 0.0 if found.item is None else float(found.item[k, k])
    return None if variance is None or not total > 0 else min(1.0, variance / total)


def curvature_entries(blocks: Sequence[BlockCurvature]) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """(cells, contrasts) of the summary.

    Cells: `curvature` of each arm, and `curvature_tangential` and `curvature_gradient`, the two parts of the angular
    one, which add up to it; in nats per token and delta². Contrasts: the difference angular - magnitude, with p after
    Holm over the blocks, and the ratio's limit with Fieller's interval, undefined unless magnitude's interval lies
    above 0. `ci_simultaneous` is Bonferroni over the blocks.
    """
    sizes = Counter(one.family for one in blocks)
    p_of = {
        id(one): p
        for where in sizes
        for one, p in zip(
            [b for b in blocks if b.family == where],
            holm([b.difference.p_two_sided() for b in blocks if b.family == where]),
            strict=True,
        )
    }
    cells, contrasts = [], []
    for one in blocks:
        level = bonferroni_level(0.95, sizes[one.family])
        cells += [_cell(one, k, level) for k in range(len(PARTS))]
        estimate = one.difference
        difference = {"kind": "difference", "value": estimate.value, **_intervals(estimate, level)}
        contrasts.append({**_named(one), **difference, "p_holm": p_of[id(one)], "defined": estimate.value is not None})
        contrasts.append({**_named(one), **_limit(one, level)})
    return cells, contrasts


def _named(one: BlockCurvature) -> dict[str, object]:
    layers = str(one.block)
    return {
        **{"experiment": EXPERIMENT, "task": "loss", "measure": MEASURE, "block": one.block, "layers": layers},
        **{"positions": one.positions, "policy_id": one.policy_id, "delta": None, "n_items": one.moments.n_items},
    }


def _intervals(estimate: Estimate, level: float) -> dict[str, object]:
    found: dict[str, object] = {
        "ci95": as_list(estimate.interval()),
        "ci_simultaneous": as_list(estimate.interval(level)),
    }
    return found if found["ci95"] is not None else {**found, "why": estimate.why}


def _cell(one: BlockCurvature, k: int, level: float) -> dict[str, object]:
    part = PARTS[k]
    arm = part if k < 2 else "angular"
    estimate = one.moments.linear(*np.eye(len(PARTS))[k])
    entry = {**_named(one), "arm": arm, "mean": estimate.value, **_intervals(estimate, level), "n_seeds": one.n_probes}
    if k < 2:
        return {**entry, "probe_variance_share": one.probe_share[k]}
    return {**entry, "measure": f"{MEASURE}_{part}"}


def _limit(one: BlockCurvature, level: float) -> dict[str, object]:
    value, why = ratio(one.limit) if one.moments.values is not None else (None, one.moments.why)
    entry: dict[str, object] = {"kind": "ratio", "value": value, "ci95": None, "ci_simultaneous": None}
    if value is not None:
        interval, why = ratio_interval(one.limit)
        simultaneous, unbounded = ratio_interval(one.limit, level)
        entry.update(ci95=as_list(interval), ci_simultaneous=as_list(simultaneous))
        why = why or unbounded
    return {**entry, "defined": value is not None, **({"why": why} if why else {})}
