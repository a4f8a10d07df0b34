"""Scores, differences and claims from rows; coverage by simulation; encoding beside computation."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata, spearmanr

from polarlens.probing import scores as word_scores
from polarlens.statistics.bootstrap import bca
from polarlens.statistics.claims_given import given_entry
from polarlens.statistics.entries import Entries
from polarlens.statistics.intervals import ratio_of_sums
from polarlens.statistics.probing import (
    drop_differences,
    drops,
    probe_scores,
    probing_entries,
    representation_differences,
)
from polarlens.statistics.published import CLAIMS


def probe_rows(values: dict[str, list[tuple[float, float]]], **named: object) -> pd.DataFrame:
    """representation -> (score, weight) per sentence."""
    common = {"block": 3, "target": "upos", "metric": "accuracy", "pooling": "last", "after_arm": None, "dataset": "d"}
    common["task"] = None
    return pd.DataFrame(
        [
            {**common, "representation": name, "item": f"i{i}", "cluster": f"i{i}", "score": s, "weight": w, **named}
            for name, per_sentence in values.items()
            for i, (s, w) in enumerate(per_sentence)
        ]
    )


def entries(rows: pd.DataFrame) -> Entries:
    return probing_entries(rows, {})


def status(id_: str, rows: pd.DataFrame, n_layers: int = 10) -> tuple[object, object]:
    (claim,) = [one for one in CLAIMS if one.id == id_]
    given = entries(rows).given[id_]
    found = given_entry(claim, given, model="m", preset="matched", delta_mode="relative", n_layers=n_layers)
    return found["status"], found["why"]


def test_a_score_is_a_ratio_of_sums_in_points() -> None:
    rows = probe_rows({"direction": [(3, 4), (1, 2), (0, 1), (2, 2), (5, 8), (1, 1)]})
    (score,) = probe_scores(rows)
    assert score.found.estimate.value == pytest.approx(100 * 12 / 18)
    low, high = score.found.interval or (0, 0)
    assert 0 < low < 66.7 < high < 100
    (entry,) = entries(rows).cells
    assert entry["measure"] == "score"
    assert (entry["block"], entry["n_items"], entry["representation"]) == (3, 6, "direction")
    (fraction,) = entries(rows.assign(metric="r2")).cells
    assert fraction["mean"] == pytest.approx(12 / 18)


def test_all_right_has_an_interval_and_repeats_are_one_cluster() -> None:
    (entry,) = entries(probe_rows({"direction": [(4, 4)] * 30})).cells
    assert entry["mean"] == 100
    assert entry["ci95"] == [90, 100]  # 300 / n points, on the scale
    rows = probe_rows({"direction": [(1, 4), (3, 4), (2, 4), (0, 4)]})
    rows["cluster"] = ["a", "a", "b", "b"]
    (score,) = probe_scores(rows)
    assert (score.found.moments.n_items, score.found.moments.n_clusters) == (4, 2)


def test_draws_are_averaged_before_sentences() -> None:
    """Two seeds of one sentence say no more about other sentences than their mean."""
    one, other = (
        probe_rows({"norm": [(s, 4.0) for s in column]}, after_arm="angular", delta=0.1, seed=seed, sign=1)
        for seed, column in enumerate(([1, 2, 3, 4, 0, 2], [3, 2, 1, 4, 2, 0]))
    )
    (both,) = probe_scores(pd.concat([one, other]))
    (mean,) = probe_scores(one.assign(score=(one["score"] + other["score"]) / 2))
    assert both.found.estimate == mean.found.estimate
    assert (both.n_draws, both.named["after_arm"], both.named["delta"]) == (2, "angular", 0.1)


def test_differences_are_paired() -> None:
    g = np.random.default_rng(0)
    hard = g.integers(0, 8, 60)
    rows = probe_rows({"direction": [(h + 1, 10) for h in hard], "norm": [(h, 10) for h in hard]})
    ((_, difference),) = representation_differences(probe_scores(rows), "direction", "norm")
    assert difference.estimate.value == pytest.approx(10)
    assert difference.interval == pytest.approx((5, 15))  # every sentence agrees: 300 / 60 points
    rows.loc[0, "score"] += 2
    ((_, difference),) = representation_differences(probe_scores(rows), "direction", "norm")
    assert difference.estimate.se is not None
    assert difference.estimate.se < 1  # though the sentences themselves differ by 25 points


def gain_rows(block: int, mean: float, spread: float, n: int = 80, seed: int = 0) -> pd.DataFrame:
    g = np.random.default_rng([block + 1, seed])
    return probe_rows(
        {"norm": [(10 * x, 10.0) for x in g.normal(mean, spread, n)]}, block=block, target="depth", metric="gain"
    )


def test_claims_hold_per_block_and_are_shown_in_the_middle() -> None:
    rows = pd.concat([gain_rows(b, 0.2 if b else 0.0, 0.05) for b in (-1, 0, 4, 9)])
    assert [one.block for one in entries(rows).given["C7"]] == [-1, 0, 4, 9]
    found, why = status("C7", rows)
    assert found == "replicates"
    assert str(why).endswith("measured at block 4")
    found, why = status("C7", pd.concat([gain_rows(b, 0.001, 0.005) for b in (0, 4, 9)]))
    assert (found, str(why).startswith("every interval lies in the band")) == ("contradicts", True)
    assert status("C7", gain_rows(4, 0.0, 0.3))[0] == "inconclusive"
    assert entries(gain_rows(4, 0.0, 0.3)).given["C6"] == []


def test_rows_of_other_poolings_and_arms_do_not_enter_the_claims() -> None:
    rows = gain_rows(4, 0.2, 0.05)
    other = [rows.assign(pooling="mean", score=0.0), rows.assign(after_arm="angular", score=-9.0)]
    assert entries(rows).given == entries(pd.concat([rows, *other])).given


def after_rows() -> pd.DataFrame:
    """40 sentences read clean and after both arms, each arm with two seeds."""
    g = np.random.default_rng(3)
    clean = g.integers(4, 9, 40)
    after = {"magnitude": 1, "angular": 3}
    tables = [probe_rows({"norm": [(c, 10.0) for c in clean]})]
    for arm, lost in after.items():
        for seed in (0, 1):
            read = [
                (c - lost + 2 * seed - 1 + noise, 10.0) for c, noise in zip(clean, g.normal(0, 0.5, 40), strict=True)
            ]
            more = {"after_arm": arm, "seed": seed, "delta": 0.1, "layers": "3", "policy_id": "p", "positions": "all"}
            tables.append(probe_rows({"norm": read}, **more))
    return pd.concat(tables, ignore_index=True)


def test_what_a_perturbation_takes_is_paired_by_sentence() -> None:
    rows = after_rows()
    wide = rows.pivot_table(values="score", index="item", columns="after_arm", dropna=False).rename(
        columns={np.nan: "clean"}
    )
    clean = rows[rows["after_arm"].isna()].set_index("item")["score"]
    for one, found in drops(probe_scores(rows)):
        lost = 10 * (clean - wide[str(one.named["after_arm"])])  # points: 100 / 10 words
        assert found.estimate.value == pytest.approx(lost.mean())
        assert found.estimate.se == pytest.approx(lost.std() / np.sqrt(40))
    ((_, difference),) = drop_differences(probe_scores(rows))
    lost = 10 * (wide["magnitude"] - wide["angular"])
    assert difference.estimate.value == pytest.approx(lost.mean())
    assert difference.estimate.se == pytest.approx(lost.std() / np.sqrt(40))
    (contrast,) = [one for one in entries(rows).contrasts if one["measure"] == "drop"]
    assert contrast["value"] == pytest.approx(lost.mean())
    assert (contrast["after_arm"], contrast["layers"], contrast["delta"]) == ("angular - magnitude", "3", 0.1)
    assert contrast["p_holm"] < 1e-6


def test_shared_draws_make_the_seed_a_second_factor() -> None:
    """Two seeds that move all sentences alike: the spread between seeds is part of the error."""
    rows, shared = after_rows(), {"p": {"across_items": "by-length"}}

    def se(policies: dict[str, dict[str, object]]) -> float:
        (found,) = [f for one, f in drops(probe_scores(rows, policies)) if one.named["after_arm"] == "angular"]
        assert found.estimate.se
        return found.estimate.se

    assert se(shared) > 5 * se({})  # seeds differ by 20 points, two of them: about 20 / 2


def test_holm_runs_over_the_blocks() -> None:
    blocks = [
        probe_rows({"direction": [(8, 10), (6, 10)] * 9, "norm": [(7, 10), (6, 10)] * 9}, block=b) for b in range(4)
    ]
    every = [one for one in entries(pd.concat(blocks)).contrasts if one["measure"] == "score"]
    (alone,) = [one for one in entries(blocks[0]).contrasts if one["measure"] == "score"]
    assert [one["representation"] for one in every] == ["direction - norm"] * 4
    assert every[0]["p_holm"] == pytest.approx(4 * alone["p_holm"])
    assert every[0]["ci_simultaneous"][0] < alone["ci_simultaneous"][0]


def simulated(g: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sentence, y, predicted): sentences of 3 to 20 words whose errors and depths go together within a sentence."""
    words = g.integers(3, 21, n)
    sentence = np.repeat(np.arange(n), words)
    own = g.standard_normal(n)[sentence]
    y = np.round(np.abs(own + g.standard_normal(len(sentence))) * 2)
    predicted = y + np.repeat(g.exponential(1.0, n), words) * g.standard_normal(len(sentence)) + 0.5 * own
    return sentence, y, predicted


STATISTICS = {
    "r2": word_scores.r2,
    "spearman": word_scores.spearman,
    "gain": lambda y, p: word_scores.gain(y, np.full(len(y), 2.0), p),
}


def coverage(metric: str, studies: int, n: int = 80) -> tuple[float, float]:
    """Share of studies whose bootstrap and t intervals hold the value in a very large sample."""
    _, y, predicted = simulated(np.random.default_rng(99), 100_000)
    score, weight = STATISTICS[metric](y, predicted)  # type: ignore[misc]
    truth = score.sum() / weight.sum()
    held = np.zeros(2)
    for study in range(studies):
        sentence, y, predicted = simulated(np.random.default_rng([5, study]), n)
        score, weight = STATISTICS[metric](y, predicted)  # type: ignore[misc]
        sums = [np.bincount(sentence, v) for v in (score, weight)]
        for i, interval in enumerate((bca(*sums), ratio_of_sums(*sums).interval())):
            assert interval is not None
            held[i] += interval[0] <= truth <= interval[1]
    return held[0] / studies, held[1] / studies


@pytest.mark.parametrize("metric", list(STATISTICS))
def test_intervals_cover(metric: str) -> None:
    for held in coverage(metric, 150):
        assert 0.88 <= held <= 0.99


@pytest.mark.full
@pytest.mark.parametrize("metric", list(STATISTICS))
@pytest.mark.parametrize(("n", "least"), [(80, 0.88), (400, 0.91)])
def test_intervals_cover_in_many_studies(metric: str, n: int, least: float) -> None:
    """Squared errors of an exponential scale have a heavy tail: the floors are those of lognormal items."""
    held = coverage(metric, 1500, n)
    print(n, metric, "bootstrap and t:", held)
    for share in held:
        assert least <= share <= 0.97


def test_the_linearised_rank_correlation_agrees_with_a_bootstrap_that_ranks_anew() -> None:
    g = np.random.default_rng(11)
    sentence, y, predicted = simulated(g, 150)
    sums = word_scores.spearman(y, predicted)
    assert sums is not None
    score, weight = (np.bincount(sentence, v) for v in sums)
    (score,) = probe_scores(probe_rows({"norm": list(zip(score, weight, strict=True))}, metric="spearman"))
    found = score.found
    assert found.estimate.value == pytest.approx(spearmanr(y, predicted).statistic)
    members = [np.flatnonzero(sentence == s) for s in range(150)]
    again = []
    for _ in range(600):
        words = np.concatenate([members[s] for s in g.integers(0, 150, 150)])
        again.append(np.corrcoef(rankdata(y[words]), rankdata(predicted[words]))[0, 1])
    assert found.estimate.se == pytest.approx(np.std(again), rel=0.12)


def sweep_rows() -> pd.DataFrame:
    """Blocks 3 and 5 perturbed alone at two deltas, and 3-5 together."""
    g = np.random.default_rng(1)
    rows: list[dict[str, object]] = []
    for task in ("loss", "pairs"):
        for i in range(12):
            base = {"task": task, "dataset": "d", "item": f"{task}{i}", "cluster": f"{task}{i}", "experiment": "sweep"}
            for layers in ("3", "5", "3-5"):
                key = {**base, "layers": layers, "positions": "all", "policy_id": f"p-{task}", "delta_mode": "relative"}
                clean = {
                    "arm": "clean",
                    "delta": 0.0,
                    "n_tokens": 10,
                    "nll": 30.0,
                    "logp_good": -10.0,
                    "logp_bad": -12.0,
                }
                rows.append(key | clean)
                for arm, damage in (("angular", 2.0), ("magnitude", 1.0)):
                    for delta in (0.1, 0.2):
                        harm = damage * delta * (2 if layers == "5" else 1) * 10 + 0.1 * g.standard_normal()
                        rows.append(
                            key | clean | {"arm": arm, "delta": delta, "seed": 0, "nll": 30.0 + harm, "moved": 5}
                        )
    return pd.DataFrame(rows)


def test_encoding_beside_computation() -> None:
    probing = pd.concat(
        [probe_rows({"direction": [(9, 10), (8, 10)] * 4, "norm": [(3, 10), (2, 10)] * 4}, block=b) for b in (-1, 3)]
        + [gain_rows(3, 0.2, 0.05)]
    )
    cells = probing_entries(pd.concat([probing, sweep_rows()], ignore_index=True), {}).cells

    def mean(**named: object) -> float:
        (cell,) = [one for one in cells if named.items() <= one.items()]
        low, high = cell["ci95"]
        assert low < cell["mean"] < high
        return cell["mean"]

    assert mean(representation="direction", metric="accuracy", block=3) == pytest.approx(85)
    assert mean(representation="norm", metric="accuracy", block=-1) == pytest.approx(25)
    assert mean(representation="norm", metric="gain", block=3) == pytest.approx(0.2, abs=0.02)
    at = {"delta": 0.1, "experiment": "probing"}
    assert mean(task="loss", measure="nll", layers="3", arm="angular", **at) == pytest.approx(0.2, abs=0.02)
    assert mean(task="loss", measure="nll", layers="5", arm="magnitude", **at) == pytest.approx(0.2, abs=0.02)
    assert mean(task="pairs", measure="accuracy", layers="3", arm="angular", **at) == 0
