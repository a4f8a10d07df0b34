"""Intervals against worked examples, closed forms and scipy."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from polarlens.statistics.bootstrap import bca
from polarlens.statistics.intervals import Estimate, clustered_mean, moments, ratio_of_sums
from polarlens.statistics.multiplicity import bonferroni_level, holm
from polarlens.statistics.ratio import ratio, ratio_interval

SENTENCES = np.array(
    [[0.9, 1, 1.1, 1, 1], [-0.5, -0.4, -0.6, -0.5, -0.5], [0.6, 0.7, 0.5, 0.6, 0.6], [-0.1, 0, 0.1, 0, 0]]
)


class TestClusteredMean:
    def test_four_sentences_five_seeds(self):
        estimate = clustered_mean(SENTENCES.reshape(-1), np.repeat(np.arange(4), 5))
        assert estimate.value == pytest.approx(0.275)
        assert estimate.se == pytest.approx(0.3301, abs=5e-5)
        assert estimate.df == 3
        assert estimate.value / estimate.se == pytest.approx(0.833, abs=5e-4)
        assert estimate.p_two_sided() == pytest.approx(0.466, abs=5e-4)

    def test_draws_as_columns_are_draws_as_cluster(self):
        columns = moments(SENTENCES[None]).linear(1.0)
        rows = clustered_mean(SENTENCES.reshape(-1), np.repeat(np.arange(4), 5))
        assert (columns.value, columns.se, columns.df) == pytest.approx((rows.value, rows.se, rows.df))

    def test_one_item_per_cluster_is_the_t_interval(self):
        x = np.random.default_rng(0).exponential(1.0, 30)
        expected = scipy.stats.ttest_1samp(x, 0.4)
        estimate = clustered_mean(x)
        assert estimate.interval(0.9) == pytest.approx(tuple(expected.confidence_interval(0.9)))
        assert estimate.p_two_sided(0.4) == pytest.approx(expected.pvalue)
        assert estimate.p_above(0.4) == pytest.approx(scipy.stats.ttest_1samp(x, 0.4, alternative="greater").pvalue)
        assert estimate.p_below(0.4) == pytest.approx(scipy.stats.ttest_1samp(x, 0.4, alternative="less").pvalue)

    def test_unequal_clusters_by_hand(self):
        # mean 2; cluster sums of deviations: a -2, b -0 + 2 = 2 -> var = 2/1 * (4 + 4) / 9
        estimate = clustered_mean([0.0, 2.0, 4.0], ["a", "b", "b"])
        assert (estimate.value, estimate.se) == pytest.approx((2.0, math.sqrt(16 / 9)))

    def test_pairing_removes_what_the_arms_share(self):
        shared, own = np.random.default_rng(1).standard_normal((2, 50))
        m = moments(np.stack([100 * shared + own, 100 * shared]))
        expected = scipy.stats.ttest_1samp(own, 0.0).confidence_interval()
        assert m.linear(1.0, -1.0).interval() == pytest.approx(tuple(expected), rel=1e-6)


class TestRatioOfSums:
    def test_two_texts(self):
        """7 scored tokens of mean 2.0 and one of 6.0: 2.5, not the mean of means 4.0."""
        assert ratio_of_sums([14.0, 6.0], [7.0, 1.0]).value == 2.5
        assert clustered_mean([2.0, 6.0]).value == 4.0

    def test_linearised_by_hand(self):
        s, t = np.array([1.0, 5.0, 3.0]), np.array([1.0, 2.0, 3.0])
        psi = (s - 1.5 * t) / 2.0
        estimate = ratio_of_sums(s, t)
        assert (estimate.value, estimate.df) == (1.5, 2)
        assert estimate.se == pytest.approx(psi.std(ddof=1) / math.sqrt(3))

    def test_jackknife_agrees(self):
        rng = np.random.default_rng(2)
        t = rng.integers(5, 60, 400).astype(float)
        s = t * rng.gamma(2.0, 0.5, 400)
        left_out = (s.sum() - s) / (t.sum() - t)
        jackknife = math.sqrt(399 / 400 * ((left_out - left_out.mean()) ** 2).sum())
        assert ratio_of_sums(s, t).se == pytest.approx(jackknife, rel=0.02)


class TestSharedDraws:
    def test_mean_squares_of_a_balanced_table(self):
        y = np.random.default_rng(3).standard_normal((6, 4)) + np.array([3.0, 0, 0, 0])[None]
        grand, rows, columns = y.mean(), y.mean(axis=1), y.mean(axis=0)
        ms_item = 4 * ((rows - grand) ** 2).sum() / 5
        ms_seed = 6 * ((columns - grand) ** 2).sum() / 3
        ms_rest = ((y - rows[:, None] - columns[None] + grand) ** 2).sum() / 15
        estimate = moments(y[None], shared_draws=True).linear(1.0)
        assert estimate.se**2 == pytest.approx((ms_item + ms_seed - ms_rest) / 24)
        satterthwaite = (ms_item + ms_seed - ms_rest) ** 2 / (ms_item**2 / 5 + ms_seed**2 / 3 + ms_rest**2 / 15)
        assert estimate.df == pytest.approx(max(satterthwaite, 3))

    def test_without_a_seed_effect_it_is_the_nested_interval(self):
        y = np.random.default_rng(4).standard_normal((30, 4))
        y -= y.mean(axis=0)  # no spread of seeds at all
        two_way, nested = moments(y[None], shared_draws=True).linear(1.0), moments(y[None]).linear(1.0)
        assert (two_way.se, two_way.df) == pytest.approx((nested.se, 29))

    def test_few_degrees_of_freedom_are_not_fewer_than_the_seeds_give(self):
        y = 100.0 * np.arange(3.0)[None] + np.random.default_rng(5).standard_normal((20, 3))
        assert moments(y[None], shared_draws=True).linear(1.0).df == pytest.approx(2.0, abs=0.01)

    def test_clusters_take_the_place_of_items(self):
        y = np.random.default_rng(6).standard_normal((12, 3)) + np.array([2.0, 0, -1.0])[None]
        clusters = np.repeat(np.arange(4), 3)
        collapsed = y.reshape(4, 3, 3).mean(axis=1)
        a = moments(y[None], cluster=clusters, shared_draws=True).linear(1.0)
        b = moments(collapsed[None], shared_draws=True).linear(1.0)
        assert (a.value, a.se, a.df) == pytest.approx((b.value, b.se, b.df))

    def test_one_seed(self):
        estimate = moments(np.arange(5.0)[None, :, None], shared_draws=True).linear(1.0)
        assert estimate.value == 2.0
        assert estimate.interval() is None
        assert "one seed" in estimate.why

    def test_items_that_lack_a_seed_are_left_out(self):
        y = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 7.0]])
        m = moments(y[None], shared_draws=True)
        assert (m.n_items, m.linear(1.0).value) == (2, 3.75)

    def test_ratio_is_where_the_interval_of_the_contrast_holds_zero(self):
        rng = np.random.default_rng(7)
        item, seed = rng.exponential(1.0, 40)[:, None], 0.4 * rng.standard_normal(5)[None]
        y = np.stack([2 * item + seed, item + 0 * seed]) + 0.3 * rng.standard_normal((2, 40, 5))
        m = moments(y, shared_draws=True)
        low, high = ratio_interval(m)[0]
        for rho, holds in ((low * 1.001, True), (high * 0.999, True), (low * 0.999, False), (high * 1.001, False)):
            contrast = moments((y[0] - rho * y[1])[None], shared_draws=True).linear(1.0).interval()
            assert (contrast[0] <= 0 <= contrast[1]) is holds


class TestFieller:
    def test_worked_quadratic(self):
        """A = 3, M = 2 with variances 0.04 and 0.01, covariance 0: textbook limits at t."""
        rng = np.random.default_rng(8)
        base = rng.standard_normal((2, 20))
        base -= base.mean(axis=1, keepdims=True)
        q, _ = np.linalg.qr(base.T)
        x = np.array([[3.0], [2.0]]) + np.sqrt(np.array([[0.04], [0.01]]) * 20 * 19) * q.T
        m = moments(x)
        t = scipy.stats.t.ppf(0.975, 19)
        g = t**2 * 0.01 / 4
        half = t / 2 * math.sqrt(0.04 * (1 - g) + 1.5**2 * 0.01) / (1 - g)
        assert ratio(m) == (pytest.approx(1.5), None)
        assert ratio_interval(m)[0] == pytest.approx((1.5 / (1 - g) - half, 1.5 / (1 - g) + half))

    def test_limits_make_the_contrast_just_significant(self):
        x = np.random.default_rng(9).exponential(1.0, (2, 25)) + 1.0
        for rho in ratio_interval(moments(x), 0.99)[0]:
            assert scipy.stats.ttest_1samp(x[0] - rho * x[1], 0.0).pvalue == pytest.approx(0.01, rel=1e-6)

    def test_two_way_scan_gives_the_closed_form_without_seed_effect(self):
        y = np.random.default_rng(10).exponential(1.0, (2, 30, 3)) + 1.0
        y -= y.mean(axis=1, keepdims=True) - y.mean(axis=(1, 2), keepdims=True)
        shared = ratio_interval(moments(y, shared_draws=True))[0]
        assert shared == pytest.approx(ratio_interval(moments(y))[0], rel=1e-6)

    @pytest.mark.parametrize("denominator", [[-1.0, 1.0, 2.0, 0.5], [-2.0, -3.0, -2.5, -2.2], [0.0] * 4])
    def test_refused_unless_the_denominator_is_above_zero(self, denominator):
        value, why = ratio(moments([[1.0, 2.0, 1.5, 1.7], denominator]))
        assert value is None
        assert "denominator" in why

    def test_simultaneous_interval_may_be_unbounded_where_the_ratio_is_defined(self):
        m = moments([[1.0, 2.0, 1.5, 1.7], [0.5, 1.5, 2.4, 1.0]])
        assert ratio(m)[0] is not None
        interval, why = ratio_interval(m, 0.999)
        assert interval is None
        assert "unbounded" in why

    def test_proportional_arms_have_no_interval(self):
        x = np.random.default_rng(11).exponential(1.0, 50) + 1.0
        interval, why = ratio_interval(moments(np.stack([2.0 * x, x])))
        assert interval is None
        assert "zero variance" in why


class TestNothingToEstimate:
    def test_one_item(self):
        estimate = clustered_mean([3.0])
        assert (estimate.value, estimate.interval(), estimate.p_two_sided()) == (3.0, None, None)
        assert "one item" in estimate.why

    def test_one_cluster(self):
        assert "one cluster" in clustered_mean([1.0, 2.0, 3.0], ["a", "a", "a"]).why

    @pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e9])
    def test_zero_variance(self, value):
        estimate = clustered_mean(np.full(7, value))
        assert estimate.value == pytest.approx(value)
        assert estimate.interval() is None
        assert "zero variance" in estimate.why

    def test_equal_arms(self):
        x = np.random.default_rng(12).standard_normal(9) * 1e3
        assert "zero variance" in moments(np.stack([x, x])).linear(1.0, -1.0).why

    def test_no_items(self):
        assert clustered_mean([]).value is None
        assert clustered_mean([np.nan]).value is None

    def test_accuracy_without_a_discordant_item(self):
        estimate = moments(np.zeros((1, 60)), cluster=np.arange(60) // 2, bounded=True).linear(1.0)
        assert estimate.interval() == pytest.approx((-10.0, 10.0))  # 300 / 30 clusters
        assert estimate.p_two_sided() == 1.0
        # the p-value of a bound is the level at which the interval reaches it
        assert estimate.p_two_sided(10.0) == pytest.approx(0.05)
        assert estimate.interval(0.99)[1] == pytest.approx(10.0 * math.log(0.01) / math.log(0.05))

    @given(
        arrays(np.float64, (2, 6, 3), elements=st.one_of(st.floats(-1e3, 1e3), st.sampled_from([0.0, np.nan, 1e300]))),
        st.booleans(),
        st.booleans(),
        st.lists(st.integers(0, 2), min_size=6, max_size=6),
    )
    def test_never_nan_never_zero_width(self, x, shared, bounded, clusters):
        m = moments(x, cluster=clusters, shared_draws=shared, bounded=bounded)
        intervals = [ratio_interval(m, level)[0] for level in (0.95, 0.999)] if ratio(m)[0] is not None else []
        for c in ((1.0, 0.0), (0.0, 1.0), (1.0, -1.0)):
            estimate = m.linear(*c)
            intervals.append(estimate.interval())
            assert estimate.value is None or math.isfinite(estimate.value)
            assert estimate.interval() is not None or estimate.why
            for p in (estimate.p_above(), estimate.p_below(), estimate.p_two_sided()):
                assert p is None or 0 <= p <= 1
        for interval in intervals:
            assert interval is None or (interval[0] < interval[1] and all(map(math.isfinite, interval)))


class TestBootstrap:
    @pytest.mark.parametrize("ratio_of_arms", [False, True])
    def test_agrees_with_scipy(self, ratio_of_arms):
        rng = np.random.default_rng(13)
        num = rng.lognormal(0.0, 1.0, 60)
        den = rng.gamma(3.0, 1.0, 60) if ratio_of_arms else np.ones(60)
        expected = scipy.stats.bootstrap(
            (num, den),
            lambda a, b, axis=-1: a.sum(axis=axis) / b.sum(axis=axis),
            paired=True,
            n_resamples=9999,
            method="BCa",
            rng=np.random.default_rng(0),
        ).confidence_interval
        width = expected.high - expected.low
        assert bca(num, den, resamples=9999) == pytest.approx((expected.low, expected.high), abs=0.05 * width)

    def test_is_deterministic(self):
        num = np.random.default_rng(14).exponential(1.0, 20)
        assert bca(num, np.ones(20)) == bca(num, np.ones(20))

    @pytest.mark.parametrize(
        ("num", "den"), [(np.ones(20), np.ones(20)), (np.arange(20.0), np.r_[-1.0, np.ones(19) * 0.01]), ([1.0], [1.0])]
    )
    def test_refuses_what_cannot_be_resampled(self, num, den):
        assert bca(np.asarray(num), np.asarray(den)) is None


class TestMultiplicity:
    def test_holm_by_hand(self):
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])

    def test_undefined_tests_count_in_the_family(self):
        assert holm([0.01, None, 0.02]) == [pytest.approx(0.03), None, pytest.approx(0.04)]
        assert holm([0.9, 0.8]) == [1.0, 1.0]
        assert holm([]) == []

    def test_bonferroni(self):
        assert bonferroni_level(0.95, 5) == pytest.approx(0.99)
        assert bonferroni_level(0.95, 1) == pytest.approx(0.95)


def test_estimate_without_anything():
    nothing = Estimate(None, why="no items")
    assert nothing.interval() is None
    assert nothing.p_above() is None
    assert nothing.p_below() is None
