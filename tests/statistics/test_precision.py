"""When to stop, and how many forward passes a precision takes: closed forms and simulated studies."""

import numpy as np
import pandas as pd
import pytest
from synthetic_rows import POLICIES, by_arm, sweep

from polarlens.errors import UsageError
from polarlens.statistics.intervals import moments
from polarlens.statistics.precision import (
    Components,
    components,
    design,
    look,
    look_at_rows,
    relative_half_width,
    rounds,
)


def study(n, ratio=2.0, spread=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return moments(np.stack([ratio * (1 + spread * rng.standard_normal(n)), 1 + spread * rng.standard_normal(n)]))


class TestRounds:
    @pytest.mark.parametrize(
        ("cap", "sizes"),
        [(1, [1]), (59, [59]), (60, [60]), (61, [60, 61]), (500, [60, 120, 240, 480, 500]), (240, [60, 120, 240])],
    )
    def test_doubling_up_to_the_cap(self, cap, sizes):
        assert rounds(cap) == sizes

    def test_no_items(self):
        with pytest.raises(UsageError):
            rounds(0)


class TestLook:
    def test_half_width_is_relative_to_the_ratio(self):
        m = study(200)
        half, why = relative_half_width(m)
        # the delta method: R (1 +- 1.97 sqrt(0.25/200 + 0.25/200))
        assert why is None
        assert half == pytest.approx(1.97 * np.sqrt(0.5 / 200), rel=0.2)
        assert relative_half_width(study(200, ratio=20.0))[0] == pytest.approx(half, rel=1e-9)

    def test_goes_on_until_the_width_is_reached(self):
        m = study(60)
        half, _ = relative_half_width(m)
        assert look([m], 60, half * 1.001, 500).stop
        found = look([m], 60, half * 0.999, 500)
        assert (found.stop, found.next_items, found.n_items) == (False, 120, 60)
        assert f"{half:.1%}" in found.why
        assert look([m], 480, half * 0.999, 500).next_items == 500
        last = look([m], 500, half * 0.999, 500)
        assert last.stop
        assert "all 500 items" in last.why

    def test_all_conditions_of_a_delta_stop_together(self):
        narrow, wide = study(60, spread=0.1), study(60, spread=0.9)
        width = relative_half_width(narrow)[0] * 1.1
        assert look([narrow], 60, width, 500).stop
        found = look([narrow, wide], 60, width, 500)
        assert not found.stop
        assert found.half_width == relative_half_width(wide)[0]

    def test_an_undefined_ratio_goes_on(self):
        undefined = study(60, spread=20.0)
        found = look([study(60, spread=0.1), undefined], 60, 5.0, 500)
        assert (found.stop, found.half_width) == (False, None)
        assert "R is undefined" in found.why
        assert look([undefined], 500, 5.0, 500).stop
        negative = moments(np.stack([-1 - 0.1 * np.arange(60.0), 1 + 0.1 * np.sin(np.arange(60.0))]))
        assert relative_half_width(negative) == (None, "the ratio is not above 0")

    @pytest.mark.parametrize("width", [0.0, -1.0, float("nan"), float("inf")])
    def test_no_width(self, width):
        with pytest.raises(UsageError, match="--ci-width"):
            look([study(60)], 60, width, 100)

    def test_nothing_measured(self):
        with pytest.raises(UsageError, match="not measured"):
            look([], 60, 0.1, 100)

    def test_from_rows(self):
        """One delta's rows decide for that delta; both positions count."""
        rows = sweep(by_arm(0.1, 0.3), by_arm(9.0, 2.0), n_texts=60, n_pairs=3, positions=("all", "no-sinks"))
        found = look_at_rows(rows, 0.1, 0.9, 60, 400, POLICIES["matched"])
        assert (found.stop, found.n_items) == (True, 60)
        tight = look_at_rows(rows, 0.1, 1e-4, 60, 400, POLICIES["matched"])
        assert tight.next_items == 120
        assert tight.half_width == found.half_width
        one = rows[~((rows["delta"] == 0.1) & (rows["positions"] == "no-sinks"))]
        alone = look_at_rows(one, 0.1, 1e-4, 60, 400, POLICIES["matched"])
        other = look_at_rows(rows[rows["positions"] != "all"], 0.1, 1e-4, 60, 400, POLICIES["matched"])
        assert tight.half_width == max(alone.half_width, other.half_width)
        noisy = rows.copy()
        noisy.loc[noisy["delta"] == 0.2, "nll"] += 1000 * np.random.default_rng(0).standard_normal(
            int((noisy["delta"] == 0.2).sum())
        )
        assert look_at_rows(noisy, 0.1, 1e-4, 60, 400, POLICIES["matched"]).half_width == found.half_width
        with pytest.raises(UsageError, match="not measured"):
            look_at_rows(pd.DataFrame(rows[rows["task"] == "pairs"]), 0.1, 0.1, 60, 400, POLICIES["matched"])


def members(rng, items, draws, item_sd, even_sd, odd_sd, mean=(3.0, 1.0)):
    """(2, I, J, 2): item effects around the mean, a part of the noise that both members share, one that flips."""
    shape = (2, items, draws)
    base = np.array(mean)[:, None, None] + item_sd * rng.standard_normal((2, items, 1))
    even, odd = even_sd * rng.standard_normal(shape), odd_sd * rng.standard_normal(shape)
    return np.stack([base + even + odd, base + even - odd], axis=-1)


class TestComponents:
    def test_planted_variances(self):
        """psi = A - R M with M = 1: each part has variance s² (1 + R²) = 10 s²."""
        plain, antithetic = components(members(np.random.default_rng(0), 20_000, 4, 0.5, 0.2, 2.0))
        assert antithetic.ratio == pytest.approx(3.0, rel=0.01)
        assert antithetic.item == pytest.approx(10 * 0.25, rel=0.05)
        assert antithetic.draw == pytest.approx(10 * 0.04, rel=0.05)
        assert plain.draw == pytest.approx(10 * (0.04 + 4.0), rel=0.05)
        assert (plain.item, plain.passes, antithetic.passes) == (antithetic.item, 2, 4)

    def test_the_ratio_has_the_predicted_variance(self):
        """Small studies drawn again and again from the same truth, plain and antithetic."""
        rng = np.random.default_rng(1)
        truth = {"item_sd": 0.3, "even_sd": 0.2, "odd_sd": 0.6}
        plain, antithetic = components(members(rng, 5000, 4, **truth))
        for c, take in ((plain, lambda y: y[..., 0]), (antithetic, lambda y: y.mean(-1))):
            drawn = np.array([np.divide(*take(members(rng, 80, 3, **truth)).mean((1, 2))) for _ in range(2000)])
            assert drawn.var() == pytest.approx(c.variance(80, 3), rel=0.12)

    @pytest.mark.parametrize("shape", [(2, 1, 4, 2), (2, 4, 1, 2), (1, 4, 4, 2), (2, 4, 4, 1), (2, 4, 4)])
    def test_shapes(self, shape):
        with pytest.raises(UsageError):
            components(np.ones(shape))

    def test_no_damage(self):
        with pytest.raises(UsageError, match="not above 0"):
            components(np.zeros((2, 3, 3, 2)))


class TestDesign:
    def test_by_hand(self):
        """v = (0.1·2/1.96)² = 0.010413; with 4 draws (1 + 8/4)/v = 288.1 items of 1 + 2·4 passes."""
        found = design(Components(2.0, 1.0, 8.0, 2), 0.1, draws=4)
        assert (found.items, found.draws, found.passes) == (289, 4, 289 * 9)

    @pytest.mark.parametrize(
        "c", [Components(2.0, 1.0, 8.0, 2), Components(1.5, 0.3, 90.0, 2), Components(9, 4, 0.1, 4)]
    )
    def test_cheapest_of_all_numbers_of_draws(self, c):
        best = min(design(c, 0.05, draws=j).passes for j in range(1, 60))
        assert design(c, 0.05).passes == best

    def test_reaches_the_half_width(self):
        c = Components(2.0, 1.0, 8.0, 2)
        found = design(c, 0.1)
        half = 1.959964 * np.sqrt(c.variance(found.items, found.draws)) / c.ratio
        assert 0.0995 <= half <= 0.1

    def test_refused(self):
        for width, ratio in ((0.0, 2.0), (0.1, 0.0), (0.1, -1.0)):
            with pytest.raises(UsageError):
                design(Components(ratio, 1.0, 1.0, 2), width)
