"""Recovery, Shapley's split and amplification: against algebra, formulas written out, and simulated truths."""

import math

import numpy as np
import pytest
from scipy.stats import t as student
from simulations import amplification_coverage, repair_coverage

from polarlens.statistics.amplification import exponential, log_amplification, log_amplification_ratio
from polarlens.statistics.intervals import moments
from polarlens.statistics.recovery import recovery, recovery_difference
from polarlens.statistics.shapley import split

RNG = np.random.default_rng(3)
N = 40
TOKENS = RNG.integers(5, 60, N).astype(float)
CLUSTER = np.arange(N) // 2
D = TOKENS * RNG.exponential(1.0, N) + 5
A, M, AM = D * RNG.uniform(0.3, 0.9, N), D * RNG.uniform(0.2, 0.8, N), D * RNG.uniform(0.0, 0.3, N)


def by_hand(num, den, weights, cluster):
    """Fieller's interval of sum(num)/sum(den) by scanning rho for |sum(num - rho·den)| within t standard errors."""
    groups = np.unique(cluster)
    c = len(groups)
    quantile = student.ppf(0.975, c - 1)

    def inside(rho):
        # psi of num - rho·den is linearised against the weights, as every rate per token is
        value = (num - rho * den).sum() / weights.sum()
        psi = (num - rho * den - value * weights) / weights.mean()
        sums = np.array([psi[cluster == g].sum() for g in groups])
        return abs(value) <= quantile * math.sqrt(c / (c - 1) * (sums**2).sum()) / len(num)

    centre = num.sum() / den.sum()
    assert inside(centre)
    edges = []
    for direction in (-1.0, 1.0):
        low, high = 0.0, 10.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if inside(centre + direction * middle) else (low, middle)
        edges.append(centre + direction * low)
    return centre, edges


@pytest.mark.parametrize("weights", [TOKENS, np.ones(N)])
def test_recovery_is_one_minus_a_ratio_of_means_with_fiellers_interval(weights):
    found = recovery(moments(np.stack([A, D]), weights, CLUSTER))
    centre, (low, high) = by_hand(A, D, weights, CLUSTER)
    assert found.value == pytest.approx(1 - centre, rel=1e-12)
    assert found.ci95 == pytest.approx((1 - high, 1 - low), rel=1e-9)
    assert found.why is None


def test_recovery_at_its_ends():
    full = recovery(moments(np.stack([0 * D, D])))
    assert full.value == 1.0
    assert full.ci95 is None  # nothing varies
    assert "zero variance" in full.why
    assert recovery(moments(np.stack([D, D]))).value == pytest.approx(0.0, abs=1e-15)
    worse = recovery(moments(np.stack([1.5 * D + RNG.standard_normal(N), D])))
    assert worse.value == pytest.approx(-0.5, abs=0.1)
    assert worse.ci95[0] < worse.value < worse.ci95[1] < 0


@pytest.mark.parametrize("damage", [RNG.standard_normal(N), -D, np.zeros(N)])
def test_no_recovery_of_what_is_not_clearly_a_damage(damage):
    found = recovery(moments(np.stack([0.5 * damage, damage])))
    assert (found.value, found.ci95) == (None, None)
    assert "not clearly above 0" in found.why
    both = recovery_difference(moments(np.stack([A, D, 0.5 * damage, damage])))
    assert both.value is both.interval() is None
    assert "not clearly above 0" in both.why


def test_accuracy_and_margin_of_pairs():
    """Points lost per item, averaged over draws; the same estimator, and one cluster per verb."""
    lost = RNG.integers(0, 6, N) * 20.0
    left = np.where(RNG.random(N) < 0.5, 0.0, lost)
    found = recovery(moments(np.stack([left, lost]), cluster=CLUSTER, bounded=True))
    assert found.value == pytest.approx(1 - left.sum() / lost.sum())
    assert found.ci95[0] < found.value < found.ci95[1]
    none_left = recovery(moments(np.stack([0 * lost, lost]), cluster=CLUSTER, bounded=True))
    assert (none_left.value, none_left.ci95) == (1.0, None)


def test_the_difference_of_recoveries_is_linearised():
    """Against influences written out, and against the jackknife over clusters."""
    e = 0.6 * D + TOKENS * RNG.exponential(0.5, N)
    b = e * RNG.uniform(0.2, 0.7, N)
    m = moments(np.stack([A, D, b, e]), TOKENS, CLUSTER)
    found = recovery_difference(m)
    assert found.value == pytest.approx(b.sum() / e.sum() - A.sum() / D.sum(), rel=1e-12)
    influence = (A.sum() / D.sum() * D - A) / D.mean() - (b.sum() / e.sum() * e - b) / e.mean()
    sums = np.array([influence[g == CLUSTER].sum() for g in np.unique(CLUSTER)])
    c = len(sums)
    assert found.se == pytest.approx(math.sqrt(c / (c - 1) * (sums**2).sum()) / N, rel=1e-10)
    assert found.df == c - 1
    without = [g != CLUSTER for g in np.unique(CLUSTER)]
    replicates = np.array([b[k].sum() / e[k].sum() - A[k].sum() / D[k].sum() for k in without])
    jackknife = math.sqrt((c - 1) / c * ((replicates - replicates.mean()) ** 2).sum())
    assert found.se == pytest.approx(jackknife, rel=0.1)


def test_a_shapley_split_is_fair():
    m = moments(np.stack([D, A, M, AM]), TOKENS, CLUSTER)
    found = split(m)
    both = (D - AM).sum() / TOKENS.sum()
    assert found.recovered.value == pytest.approx(both)
    assert found.phi["attention"].value + found.phi["mlp"].value == pytest.approx(both)
    r = {name: (D - left).sum() / TOKENS.sum() for name, left in (("a", A), ("m", M), ("am", AM))}
    assert found.phi["attention"].value == pytest.approx((r["a"] + r["am"] - r["m"]) / 2)
    assert found.phi["mlp"].value == pytest.approx((r["m"] + r["am"] - r["a"]) / 2)
    assert found.interaction.value == pytest.approx(r["am"] - r["a"] - r["m"])
    assert found.out_of_reach.value == pytest.approx(D.sum() / TOKENS.sum() - r["am"])
    assert found.share["attention"].value + found.share["mlp"].value == pytest.approx(1)
    # Means have the interval of the same numbers combined item by item.
    alone = moments((0.5 * (D - A + M - AM))[None], TOKENS, CLUSTER).linear(1.0)
    assert found.phi["attention"].interval() == pytest.approx(alone.interval(), rel=1e-9)
    centre, edges = by_hand(0.5 * (D - A + M - AM), D - AM, TOKENS, CLUSTER)
    assert found.share["attention"].value == pytest.approx(centre)
    assert found.share["attention"].ci95 == pytest.approx(tuple(edges), rel=1e-9)


def test_paths_that_do_not_interact_and_a_path_that_does_nothing():
    noise = 0.1 * RNG.standard_normal((3, N))
    additive = split(moments(np.stack([D, 0.7 * D + noise[0], 0.5 * D + noise[1], 0.2 * D + noise[0] + noise[1]])))
    assert additive.interaction.value == pytest.approx(0, abs=1e-12)
    assert additive.share["attention"].value == pytest.approx(0.3 / 0.8, abs=0.02)
    silent = split(moments(np.stack([D, D, 0.4 * D + noise[2], 0.4 * D + noise[2]])))
    assert silent.phi["attention"].value == pytest.approx(0, abs=1e-12)
    assert silent.share["attention"].value == pytest.approx(0, abs=1e-12)
    assert silent.share["mlp"].value == pytest.approx(1, rel=1e-12)
    outside = split(moments(np.stack([D, 1.4 * D + noise[0], 0.1 * D + noise[1], 0.4 * D + noise[2]])))
    assert outside.share["attention"].value < 0 < 1 < outside.share["mlp"].value


def test_no_shares_of_what_is_not_recovered():
    found = split(moments(np.stack([D, A, M, D + 5 * RNG.standard_normal(N)])))
    assert found.phi["attention"].value is not None
    assert found.share["attention"].value is None
    assert "what the two recover together is not clearly above 0" in found.share["mlp"].why


def test_amplification_against_formulas_written_out():
    step, last = TOKENS / 10, TOKENS / 10 * RNG.exponential(2.0, N)
    value, interval = exponential(log_amplification(moments(np.stack([last, step]), cluster=CLUSTER)))
    assert value == pytest.approx(last.mean() / step.mean())
    influence = last / last.mean() - step / step.mean()
    sums = np.array([influence[g == CLUSTER].sum() for g in np.unique(CLUSTER)])
    c = len(sums)
    half = student.ppf(0.975, c - 1) * math.sqrt(c / (c - 1) * (sums**2).sum()) / N
    assert interval == pytest.approx((value * math.exp(-half), value * math.exp(half)), rel=1e-9)
    # An absolute delta: every item moves by exactly the same.
    value, interval = exponential(log_amplification(moments(np.stack([last, np.full(N, 5.0)]))))
    assert value == pytest.approx(last.mean() / 5)
    assert interval[0] < value < interval[1]


def test_the_arms_ratio_of_amplifications():
    step = TOKENS / 10
    angular, magnitude = step * RNG.exponential(3.0, N), step * RNG.exponential(1.0, N)
    m = moments(np.stack([angular, step, magnitude, step]))
    found = log_amplification_ratio(m)
    value, interval = exponential(found)
    assert value == pytest.approx(angular.mean() / magnitude.mean())
    assert interval[0] < value < interval[1]
    assert found.p_above() < 0.025  # angular grows more: log ratio above 0
    same = log_amplification_ratio(moments(np.stack([angular, step, angular, step])))
    assert same.value == 0
    assert same.interval() is None
    assert "zero variance" in same.why
    lost = log_amplification(moments(np.stack([0 * step, step])))
    assert exponential(lost) == (None, None)
    assert lost.why == "a mean distance is not above 0"
    assert log_amplification(moments(np.empty((2, 0)))).why == "no items"


def test_one_item_has_no_interval():
    one = moments(np.array([[1.0], [2.0], [1.0], [1.5]]))
    assert recovery(one.combined((1, 0, 0, 0), (0, 1, 0, 0))).value is None  # its damage is not clearly above 0
    found = log_amplification_ratio(one)
    assert found.value == pytest.approx(math.log(0.5 / (1 / 1.5)))
    assert (found.interval(), found.why) == (None, "one item: no interval")


def test_draws_that_items_share_are_a_second_random_factor():
    """A seed that moves all items widens the interval of a recovery and of a difference."""
    shift = np.linspace(-1, 1, 5)
    x = np.stack([0.5 * D[:, None] + 3 * shift, D[:, None] + 0 * shift, A[:, None] - 3 * shift, D[:, None] + 0 * shift])
    x = x + 0.01 * RNG.standard_normal(x.shape)
    shared, nested = moments(x, shared_draws=True), moments(x)
    assert recovery_difference(shared).se > 1.2 * recovery_difference(nested).se
    rows = ((1, 0, 0, 0), (0, 1, 0, 0))
    wide, narrow = recovery(shared.combined(*rows)), recovery(nested.combined(*rows))
    assert wide.value == pytest.approx(narrow.value)
    assert np.diff(wide.ci95) > 1.2 * np.diff(narrow.ci95)


def check_repairs(studies, slack):
    for options in ({}, {"tokens": True}, {"per_cluster": 4}):
        found = repair_coverage(120, studies, seed=5, **options)
        for name, share in found.items():
            assert 0.92 - slack <= share <= 0.97 + slack, (options, name, share)
    for name, share in amplification_coverage(100, studies, seed=5).items():
        assert 0.92 - slack <= share <= 0.97 + slack, (name, share)


def test_coverage_of_recoveries_splits_and_amplifications():
    check_repairs(600, 0.025)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_coverage_of_recoveries_splits_and_amplifications_in_full():
    check_repairs(10_000, 0.0)
