"""Scores, differences and claims from rows; coverage by simulation; encoding beside computation."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata, spearmanr

from polarlens.probing import scores as word_scores
from polarlens.statistics.bootstrap import bca
from polarlens.statistics.claims import order_status
from polarlens.statistics.encoding import encoding_and_computation
from polarlens.statistics.intervals import ratio_of_sums
from polarlens.statistics.probing import claim_c6, claim_c7, probe_scores, representation_differences, score_entries


def probe_rows(values: dict[str, list[tuple[float, float]]], **named: object) -> pd.DataFrame:
    """representation -> (score, weight) per sentence."""
    common = {"block": 3, "target": "upos", "metric": "accuracy", "pooling": "last", "after_arm": None, "dataset": "d"}
    return pd.DataFrame(
        [
            {**common, "representation": name, "item": f"i{i}", "cluster": f"i{i}", "score": s, "weight": w, **named}
            for name, per_sentence in values.items()
            for i, (s, w) in enumerate(per_sentence)
        ]
    )


def test_a_score_is_a_ratio_of_sums_in_points() -> None:
    rows = probe_rows({"direction": [(3, 4), (1, 2), (0, 1), (2, 2), (5, 8), (1, 1)]})
    (score,) = probe_scores(rows)
    assert score.estimate.value == pytest.approx(100 * 12 / 18)
    low, high = score.interval or (0, 0)
    assert 0 < low < 66.7 < high < 100
    (entry,) = score_entries(rows)
    assert entry["measure"] == "score"
    assert (entry["block"], entry["n_items"], entry["representation"]) == (3, 6, "direction")
    (fraction,) = score_entries(rows.assign(metric="r2"))
    assert fraction["mean"] == pytest.approx(12 / 18)


def test_all_right_has_an_interval_and_repeats_are_one_cluster() -> None:
    (entry,) = score_entries(probe_rows({"direction": [(4, 4)] * 30}))
    assert entry["mean"] == 100
    assert entry["ci95"] == [90, 110]  # 300 / n points
    rows = probe_rows({"direction": [(1, 4), (3, 4), (2, 4), (0, 4)]})
    rows["cluster"] = ["a", "a", "b", "b"]
    (score,) = probe_scores(rows)
    assert (score.moments.n_items, score.moments.n_clusters) == (4, 2)


def test_draws_are_averaged_before_sentences() -> None:
    """Two seeds of one sentence say no more about other sentences than their mean."""
    one, other = (
        probe_rows({"norm": [(s, 4.0) for s in column]}, after_arm="angular", delta=0.1, seed=seed, sign=1)
        for seed, column in enumerate(([1, 2, 3, 4, 0, 2], [3, 2, 1, 4, 2, 0]))
    )
    (both,) = probe_scores(pd.concat([one, other]))
    (mean,) = probe_scores(one.assign(score=(one["score"] + other["score"]) / 2))
    assert both.estimate == mean.estimate
    assert (both.n_draws, both.named["after_arm"], both.named["delta"]) == (2, "angular", 0.1)


def test_differences_are_paired() -> None:
    g = np.random.default_rng(0)
    hard = g.integers(0, 8, 60)
    rows = probe_rows({"direction": [(h + 1, 10) for h in hard], "norm": [(h, 10) for h in hard]})
    (difference,) = representation_differences(rows, "direction", "norm")
    assert difference.estimate.value == pytest.approx(10)
    assert difference.interval == pytest.approx((5, 15))  # every sentence agrees: 300 / 60 points
    rows.loc[0, "score"] += 2
    (difference,) = representation_differences(rows, "direction", "norm")
    assert difference.estimate.se is not None
    assert difference.estimate.se < 1  # though the sentences themselves differ by 25 points


def gain_rows(block: int, mean: float, spread: float, n: int = 80, seed: int = 0) -> pd.DataFrame:
    g = np.random.default_rng([block + 1, seed])
    return probe_rows(
        {"norm": [(10 * x, 10.0) for x in g.normal(mean, spread, n)]}, block=block, target="depth", metric="gain"
    )


def test_claims_hold_per_block_and_are_shown_in_the_middle() -> None:
    found = claim_c7(pd.concat([gain_rows(b, 0.2 if b else 0.0, 0.05) for b in (-1, 0, 4, 9)]), 10)
    assert found
    assert [one.block for one in found.blocks] == [-1, 0, 4, 9]
    assert found.shown.block == 4
    assert found.in_band == (False, False, False, False) or found.in_band[1]
    assert order_status(found.estimates, found.in_band)[0] == "replicates"
    nothing = claim_c7(pd.concat([gain_rows(b, 0.001, 0.005) for b in (0, 4, 9)]), 10)
    assert nothing
    assert nothing.in_band == (True, True, True)
    unclear = claim_c7(gain_rows(4, 0.0, 0.3), 10)
    assert unclear
    assert order_status(unclear.estimates, unclear.in_band)[0] == "inconclusive"
    assert claim_c6(gain_rows(4, 0.0, 0.3), 10) is None


def test_rows_of_other_poolings_and_arms_do_not_enter_the_claims() -> None:
    rows = gain_rows(4, 0.2, 0.05)
    other = [rows.assign(pooling="mean", score=0.0), rows.assign(after_arm="angular", score=-9.0)]
    one, more = claim_c7(rows, 10), claim_c7(pd.concat([rows, *other]), 10)
    assert one
    assert more
    assert one.shown == more.shown


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
def test_intervals_cover_in_many_studies(metric: str) -> None:
    held = coverage(metric, 1500)
    print(metric, "bootstrap and t:", held)
    for share in held:
        assert 0.92 <= share <= 0.97


def test_the_linearised_rank_correlation_agrees_with_a_bootstrap_that_ranks_anew() -> None:
    g = np.random.default_rng(11)
    sentence, y, predicted = simulated(g, 150)
    sums = word_scores.spearman(y, predicted)
    assert sums is not None
    score, weight = (np.bincount(sentence, v) for v in sums)
    (found,) = probe_scores(probe_rows({"norm": list(zip(score, weight, strict=True))}, metric="spearman"))
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
        + [gain_rows(3, 0.2, 0.05), gain_rows(3, 0.2, 0.05).assign(after_arm="angular", score=-5.0)]
    )
    table = encoding_and_computation(probing, sweep_rows(), {}, delta=0.1)
    assert table.index.tolist() == [-1, 3, 5]
    assert table.loc[3, "upos_direction"] == pytest.approx(85)
    assert table.loc[-1, "upos_norm"] == pytest.approx(25)
    assert table.loc[3, "depth_gain_norm"] == pytest.approx(0.2, abs=0.02)
    assert table.loc[3, "loss_angular"] == pytest.approx(0.2, abs=0.02)  # nats per token
    assert table.loc[5, "loss_magnitude"] == pytest.approx(0.2, abs=0.02)
    assert table.loc[3, "agreement_angular"] == 0
    assert table.loc[3, "loss_angular_low"] < table.loc[3, "loss_angular"] < table.loc[3, "loss_angular_high"]
    assert table.loc[3, ["agreement_angular_low", "agreement_angular_high"]].tolist() == pytest.approx([-25, 25])
    assert table.loc[-1, ["loss_angular", "depth_gain_norm"]].isna().all()
    assert table.loc[5, ["upos_direction", "upos_direction_low"]].isna().all()
    twice = pd.concat([sweep_rows(), sweep_rows().assign(policy_id="other")])
    with pytest.raises(ValueError, match="several policies measure loss at block"):
        encoding_and_computation(probing, twice, {}, delta=0.1)
    again = encoding_and_computation(probing, twice, {}, delta=0.1, policy_ids=("p-loss", "p-pairs"))
    pd.testing.assert_frame_equal(again, table)
