"""Probe rows -> scores, what a perturbation takes from them, what the probed blocks compute, and C6 and C7.

A row holds a sentence's `score` and `weight`; a metric is sum(score) / sum(weight) over the held-out sentences. The
sampling unit is the sentence (exact repeats are one cluster): intervals are BCa bootstraps over clusters, p-values come
from the linearised t of `intervals`. Both speak of sentences like these, given the probes as trained. Where sentences
share draws the seed is a second random factor, and the interval is that of the t. Accuracy and selectivity are in
points, the others fractions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pandas as pd

from polarlens.statistics.bootstrap import bca
from polarlens.statistics.cells import cell_entries
from polarlens.statistics.claims_given import Given
from polarlens.statistics.contrasts import comparisons, contrast_entries
from polarlens.statistics.damage import damages
from polarlens.statistics.entries import Entries
from polarlens.statistics.estimates import Policies, draws_shared, item_means
from polarlens.statistics.floors import usable_conditions
from polarlens.statistics.intervals import Array, Estimate, IntArray, Interval, Moments, as_list, moments, on_the_scale
from polarlens.statistics.multiplicity import bonferroni_level, holm

EXPERIMENT = "probing"
POINTS = ("accuracy", "selectivity")
CLAIM_POOLING = "last"

_AFTER = ("after_arm", "delta", "layers", "policy_id", "positions")
_PROBE = ("block", "representation", "target", "metric", "pooling")
_SENTENCE = ["dataset", "item", "cluster"]
_NO_DRAW = -1


@dataclass(frozen=True)
class Found:
    """A linear combination of scores of the same sentences. moments: of the scores; coefficients: one for each."""

    moments: Moments
    coefficients: tuple[float, ...]

    @property
    def estimate(self) -> Estimate:
        """The value with its linearised t, for tests."""
        return self.moments.linear(*self.coefficients)

    @cached_property
    def interval(self) -> Interval | None:
        """95 %: the bootstrap, or the t where there is none (all words right, few sentences, shared draws)."""
        m = self.moments
        if m.sums is not None and m.weights is not None and m.seed is None:
            found = bca(np.asarray(self.coefficients) @ m.sums, m.weights)
        else:
            found = None
        return found or self.estimate.interval()


@dataclass(frozen=True)
class ProbeScore:
    """One metric of one probe. named: the cell's columns that are not null.

    sentence: (I,) codes of its sentences, ascending, the same in all scores of a table; cluster: (I,) of these.
    seeds: (J,). values: (I, J) scores, averaged over the rows of a seed, NaN where there is none. weight: (I,).
    n_draws: rows of a sentence. shared: whether sentences share the draw of a seed.
    """

    named: Mapping[str, object]
    sentence: IntArray
    cluster: IntArray
    seeds: IntArray
    values: Array
    weight: Array
    n_draws: int
    shared: bool

    @cached_property
    def found(self) -> Found:
        """The score itself."""
        return combination([self], [1.0])

    def key(self, *but: str) -> tuple[object, ...]:
        """What names the cell, except for some columns."""
        return tuple(self.named.get(name) for name in (*_PROBE, *_AFTER) if name not in but)


def probe_scores(rows: pd.DataFrame, policies: Policies | None = None) -> list[ProbeScore]:
    """The score of every cell: one block, representation, target, metric, pooling and perturbation."""
    table = rows.reindex(columns=[*_PROBE, *_AFTER, *_SENTENCE, "seed", "score", "weight"])
    table["cluster"] = table["cluster"].where(table["cluster"].notna(), table["item"])
    # Codes in the order of the names, so that the order of the rows decides nothing.
    codes = {
        name: np.asarray(table.groupby(columns, sort=True, dropna=False).ngroup(), dtype=np.int64)
        for name, columns in (("sentence", _SENTENCE), ("cluster", "cluster"))
    }
    seed = np.asarray(table["seed"].astype("Int64").fillna(_NO_DRAW), dtype=np.int64)
    score, weight = (table[name].to_numpy(np.float64) for name in ("score", "weight"))
    indices: Mapping[Any, Any] = table.groupby([*_PROBE, *_AFTER], dropna=False, sort=True).indices
    out = []
    for key, found in indices.items():
        where: IntArray = np.asarray(found, dtype=np.int64)
        named = {name: value for name, value in zip((*_PROBE, *_AFTER), tuple(key), strict=True) if not pd.isna(value)}
        if "block" in named:
            named["block"] = int(named["block"])
        sentence, first, row = np.unique(codes["sentence"][where], return_index=True, return_inverse=True)
        seeds, column = np.unique(seed[where], return_inverse=True)
        flat, size = row * len(seeds) + column, len(sentence) * len(seeds)
        count = np.bincount(flat, minlength=size)
        with np.errstate(invalid="ignore"):
            values = np.bincount(flat, weights=score[where], minlength=size) / count
        shared = draws_shared(policies or {}, str(named.get("policy_id")), str(named.get("after_arm")))
        out.append(
            ProbeScore(
                named,
                sentence,
                codes["cluster"][where][first],
                seeds,
                values.reshape(len(sentence), len(seeds)),
                weight[where][first],
                int(np.bincount(row).max()),
                shared,
            )
        )
    return out


def combination(scores: Sequence[ProbeScore], coefficients: Sequence[float]) -> Found:
    """sum_k c_k score_k of scores in one metric, paired by sentence."""
    bounded = scores[0].named["metric"] in POINTS
    sentence = reduce(np.intersect1d, [one.sentence for one in scores])
    drawn = [one.seeds for one in scores if one.shared]
    seeds = np.asarray(reduce(np.intersect1d, drawn) if drawn else [], dtype=np.int64)
    values = []
    for one in scores:
        here = one.values[np.searchsorted(one.sentence, sentence)]
        # Shared draws keep a column per seed; others are averaged.
        values.append(np.take(here, np.searchsorted(one.seeds, seeds), axis=1) if one.shared else item_means(here))
    of = np.searchsorted(scores[0].sentence, sentence)
    found = moments(
        np.stack(np.broadcast_arrays(*values)) * (100.0 if bounded else 1.0),
        scores[0].weight[of],
        scores[0].cluster[of],
        shared_draws=bool(drawn),
        bounded=bounded,
    )
    return Found(found, tuple(coefficients))


Difference = tuple[ProbeScore, Found]
"""A difference of two scores, and the first of them, which tells the cell."""


def representation_differences(scores: Iterable[ProbeScore], first: str, second: str) -> list[Difference]:
    """score(first) - score(second) on clean states for every metric that both have, block by block."""
    clean = [one for one in scores if "after_arm" not in one.named and "block" in one.named]
    return _paired(clean, "representation", first, second)


def drops(scores: Iterable[ProbeScore]) -> list[Difference]:
    """What a perturbation takes from a probe: score on clean states - score after it, paired by sentence."""
    every = list(scores)
    clean = {one.key(*_AFTER): one for one in every if "after_arm" not in one.named}
    after = [one for one in every if "after_arm" in one.named]
    return [(one, combination([clean[k], one], [1.0, -1.0])) for one in after if (k := one.key(*_AFTER)) in clean]


def drop_differences(scores: Iterable[ProbeScore]) -> list[Difference]:
    """The drop after the angular arm - the drop after the magnitude arm, which is a difference of the scores after."""
    return _paired([one for one in scores if "after_arm" in one.named], "after_arm", "magnitude", "angular")


def probing_entries(rows: pd.DataFrame, policies: Policies, unigram_nll: float | None = None) -> Entries:
    """The experiment's part of the summary.

    Cells: `score` of each probe, clean or after an arm, `drop` after an arm, and the damages of single blocks.
    Contrasts: direction - norm on clean states and angular - magnitude of the drops, Holm over the blocks, and the arms
    at single blocks. C6 and C7 rest on the pooling `last` at all blocks.
    """
    scores = probe_scores(rows[rows["score"].notna()], policies)
    between = representation_differences(scores, "direction", "norm")
    out = Entries()
    out.cells = [_cell("score", one, one.found, _level_interval(one)) for one in scores]
    out.cells += [_cell("drop", one, found, found.interval) for one, found in drops(scores)]
    out.contrasts = _contrasts("score", between, "representation", "direction - norm")
    out.contrasts += _contrasts("drop", drop_differences(scores), "after_arm", "angular - magnitude")
    alone = damages(rows[rows["task"].notna()])
    usable = usable_conditions(alone, policies, unigram_nll)
    out.cells += cell_entries(EXPERIMENT, alone, policies, usable)
    out.contrasts += contrast_entries(EXPERIMENT, comparisons(alone, policies, usable))
    out.given = {
        "C6": [_given(one, found) for one, found in between if _claimed(one, "upos", "accuracy")],
        "C7": [
            _given(one, one.found)
            for one in scores
            if _claimed(one, "depth", "gain") and one.named["representation"] == "norm" and "after_arm" not in one.named
        ],
    }
    return out


def _paired(scores: Sequence[ProbeScore], by: str, first: str, second: str) -> list[Difference]:
    seconds = {one.key(by): one for one in scores if one.named.get(by) == second}
    return [
        (one, combination([one, seconds[one.key(by)]], [1.0, -1.0]))
        for one in scores
        if one.named.get(by) == first and one.key(by) in seconds
    ]


def _claimed(one: ProbeScore, target: str, metric: str) -> bool:
    return (one.named["target"], one.named["metric"], one.named.get("pooling")) == (target, metric, CLAIM_POOLING)


def _given(one: ProbeScore, found: Found) -> Given:
    return Given(found.estimate, block=int(str(one.named["block"])), interval=found.interval)


def _level_interval(one: ProbeScore) -> Interval | None:
    interval = one.found.interval
    return on_the_scale(interval) if one.named["metric"] == "accuracy" else interval


def _cell(measure: str, one: ProbeScore, found: Found, interval: Interval | None) -> dict[str, object]:
    estimate = found.estimate
    entry: dict[str, object] = {
        "experiment": EXPERIMENT,
        "measure": measure,
        **one.named,
        "mean": estimate.value,
        "ci95": as_list(interval),
        "n_items": found.moments.n_items,
        "n_clusters": found.moments.n_clusters,
        "n_draws": one.n_draws,
    }
    return entry if interval else {**entry, "why": estimate.why or "too few sentences"}


def _contrasts(measure: str, found: Sequence[Difference], by: str, name: str) -> list[dict[str, object]]:
    """Differences, tested over the blocks of one metric together."""
    families: dict[tuple[object, ...], list[Difference]] = {}
    for pair in found:
        families.setdefault(pair[0].key("block", "layers"), []).append(pair)
    out = []
    for members in families.values():
        level = bonferroni_level(0.95, len(members))
        adjusted = holm([difference.estimate.p_two_sided() for _, difference in members])
        for (one, difference), p in zip(members, adjusted, strict=True):
            estimate, interval = difference.estimate, difference.interval
            entry = {
                "experiment": EXPERIMENT,
                "measure": measure,
                **one.named,
                by: name,
                "kind": "difference",
                "value": estimate.value,
                "ci95": as_list(interval),
                "ci_simultaneous": as_list(estimate.interval(level)),
                "p_holm": p,
                "n_items": difference.moments.n_items,
                "n_clusters": difference.moments.n_clusters,
                "defined": estimate.value is not None,
            }
            out.append(entry if interval else {**entry, "why": estimate.why or "too few sentences"})
    return out
