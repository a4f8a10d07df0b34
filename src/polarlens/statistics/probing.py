"""Probe rows -> scores with intervals, differences of representations, and what claims C6 and C7 rest on.

A row holds a sentence's `score` and `weight`; a metric is sum(score) / sum(weight) over the held-out sentences. The
sampling unit is the sentence (exact repeats are one cluster): intervals are BCa bootstraps over clusters, p-values come
from the linearised t of `intervals`. Both speak of sentences like these, given the probes as trained. Accuracy and
selectivity are in points, the others fractions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from polarlens.statistics.bootstrap import bca
from polarlens.statistics.intervals import Estimate, Interval, Moments, as_list, inside, moments
from polarlens.statistics.multiplicity import bonferroni_level

POINTS = ("accuracy", "selectivity")
GAIN_BAND = 0.01
CLAIM_POOLING = "last"

_AFTER = ("after_arm", "delta", "policy_id", "positions")
_CELL = ["block", "representation", "target", "metric", "pooling", *_AFTER]
_SENTENCE = ["dataset", "item", "cluster"]


@dataclass(frozen=True)
class ProbeScore:
    """One metric of one probe. named: the cell's columns that are not null. n_draws: averaged per sentence."""

    named: dict[str, object]
    moments: Moments
    n_draws: int

    @property
    def estimate(self) -> Estimate:
        """The score with its linearised t."""
        return self.moments.linear(1.0)

    @property
    def interval(self) -> Interval | None:
        """95 %: the bootstrap, or the interval of `estimate` where there is none (all words right, few sentences)."""
        return _bootstrap(self.moments, (1.0,)) or self.estimate.interval()


def probe_scores(rows: pd.DataFrame) -> list[ProbeScore]:
    """The score of every cell: one block, representation, target, metric, pooling and perturbation."""
    out = []
    for key, part in _normalised(rows).groupby(_CELL, dropna=False, sort=True):
        cell = pd.Series(list(key), index=_CELL, dtype=object)
        named = {str(name): value for name, value in cell[cell.notna()].items()}
        if "block" in named:
            named["block"] = int(str(named["block"]))
        sentences = _per_sentence(part)
        found = moments(
            _scale(str(named["metric"])) * sentences["score"].to_numpy(np.float64)[None],
            sentences["weight"].to_numpy(np.float64),
            sentences.index.get_level_values("cluster"),
            bounded=named["metric"] in POINTS,
        )
        out.append(ProbeScore(named, found, int(part.groupby(_SENTENCE).size().max())))
    return out


def score_entries(rows: pd.DataFrame) -> list[dict[str, object]]:
    """The `cells` of the summary: `mean` with `ci95`, `n_items` sentences; `why` where there is no interval."""
    out = []
    for score in probe_scores(rows):
        entry: dict[str, object] = {"experiment": "probing", "measure": "score", **score.named}
        entry |= {
            "mean": score.estimate.value,
            "ci95": as_list(score.interval),
            "n_items": score.moments.n_items,
            "n_clusters": score.moments.n_clusters,
            "n_draws": score.n_draws,
        }
        out.append(entry if entry["ci95"] else {**entry, "why": score.estimate.why or "too few sentences"})
    return out


@dataclass(frozen=True)
class BlockContrast:
    """What one block says about a claim: `estimate` for tests, `interval` (95 %, bootstrap) for display."""

    block: int
    estimate: Estimate
    interval: Interval | None


@dataclass(frozen=True)
class ProbeClaim:
    """What a claim about probes rests on: one contrast per probed block, and the block that is shown.

    in_band: whether each block's simultaneous interval lies in the band of equivalence. With `claims.order_status`,
    Holm over the blocks, this is the status.
    """

    blocks: tuple[BlockContrast, ...]
    in_band: tuple[bool, ...]
    shown: BlockContrast

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """One per block."""
        return tuple(one.estimate for one in self.blocks)


def representation_differences(
    rows: pd.DataFrame,
    first: str,
    second: str,
    *,
    target: str = "upos",
    metric: str = "accuracy",
    pooling: str = CLAIM_POOLING,
) -> list[BlockContrast]:
    """score(first) - score(second) on clean states, paired by sentence, per block; points for accuracy."""
    table = _clean(rows, target, metric, pooling)
    out = []
    for block, part in _by_block(table):
        one, other = (_per_sentence(part[part["representation"] == name]) for name in (first, second))
        both = one.merge(other, how="inner", left_index=True, right_index=True, suffixes=("_first", "_second"))
        if both.empty:
            continue
        found = moments(
            _scale(metric) * both[["score_first", "score_second"]].to_numpy(np.float64).T,
            both["weight_first"].to_numpy(np.float64),
            both.index.get_level_values("cluster"),
            bounded=metric in POINTS,
        )
        estimate = found.linear(1.0, -1.0)
        out.append(BlockContrast(block, estimate, _bootstrap(found, (1.0, -1.0)) or estimate.interval()))
    return out


def gains(
    rows: pd.DataFrame,
    representation: str,
    *,
    target: str = "depth",
    metric: str = "gain",
    pooling: str = CLAIM_POOLING,
) -> list[BlockContrast]:
    """Gain in held-out R2 of confounds + representation over confounds alone, on clean states, per block."""
    table = _clean(rows, target, metric, pooling)
    scores = probe_scores(table[table["representation"] == representation])
    return [BlockContrast(int(str(s.named["block"])), s.estimate, s.interval) for s in scores]


def claim_c6(rows: pd.DataFrame, n_blocks: int, points: float = 2.0) -> ProbeClaim | None:
    """Direction encodes part of speech better than magnitude: accuracy(direction) - accuracy(norm), points.

    Shown at block floor(n_blocks / 2), or the probed block nearest to it. None without rows.
    """
    return _claim(representation_differences(rows, "direction", "norm"), n_blocks, points)


def claim_c7(rows: pd.DataFrame, n_blocks: int, band: float = GAIN_BAND) -> ProbeClaim | None:
    """Magnitude encodes parse depth: gain in held-out R2 of confounds + norm over confounds; as `claim_c6`."""
    return _claim(gains(rows, "norm"), n_blocks, band)


def _claim(blocks: Sequence[BlockContrast], n_blocks: int, band: float) -> ProbeClaim | None:
    if not blocks:
        return None
    level = bonferroni_level(0.95, len(blocks))
    in_band = tuple(inside(one.estimate.interval(level), -band, band) for one in blocks)
    shown = min(blocks, key=lambda one: (abs(one.block - n_blocks // 2), one.block))
    return ProbeClaim(tuple(blocks), in_band, shown)


def _normalised(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with every column of a cell, in an order of their own."""
    table = rows.reindex(columns=[*_CELL, *_SENTENCE, "score", "weight"])
    table["cluster"] = table["cluster"].where(table["cluster"].notna(), table["item"])
    return table.sort_values([*_SENTENCE, *_CELL], kind="stable")


def _clean(rows: pd.DataFrame, target: str, metric: str, pooling: str) -> pd.DataFrame:
    table = _normalised(rows)
    wanted = (table["target"] == target) & (table["metric"] == metric) & (table["pooling"] == pooling)
    return table[wanted & table["after_arm"].isna() & table["block"].notna()]


def _by_block(table: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    for block, part in table.groupby("block", sort=True):
        yield int(str(block)), part


def _per_sentence(part: pd.DataFrame) -> pd.DataFrame:
    """score and weight of each sentence, averaged over draws."""
    return part.groupby(_SENTENCE, sort=True)[["score", "weight"]].mean()


def _scale(metric: str) -> float:
    return 100.0 if metric in POINTS else 1.0


def _bootstrap(found: Moments, coefficients: tuple[float, ...]) -> Interval | None:
    if found.sums is None or found.weights is None:
        return None
    return bca(np.asarray(coefficients) @ found.sums, found.weights)
