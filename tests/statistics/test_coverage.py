"""Do the intervals cover, and how often does the verdict err? Simulated studies with a known truth."""

import pytest
from simulations import (
    SCENARIOS,
    coverage,
    damages,
    plain,
    shared_draws,
    shared_ratio,
    stopping,
    token_weighted,
    verdicts,
)

FLOOR = {("exponential", 50): 0.93, ("exponential", 200): 0.93, ("lognormal", 50): 0.89, ("lognormal", 200): 0.91}


def check_coverage(studies: int, slack: float) -> None:
    for (shape, n), lowest in FLOOR.items():
        c = coverage(shape, n, studies, seed=1)
        for share in (c.mean, c.difference, c.ratio):
            assert lowest - slack <= share <= 0.97 + slack, (shape, n, c)
        assert c.refused < 0.01, (shape, n, c)


def test_coverage_of_means_differences_and_ratios():
    check_coverage(2000, 0.015)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_coverage_of_means_differences_and_ratios_in_full():
    check_coverage(10_000, 0.0)


def test_coverage_of_rates_per_token():
    linearised, per_item = token_weighted(200, 1000)
    assert 0.93 - 0.02 <= linearised <= 0.97 + 0.02
    assert per_item < 0.7  # means of per-item rates answer another question


def test_coverage_with_shared_draws():
    two_way, nested = shared_draws(60, 5, 0.5, 1000)
    assert 0.93 - 0.02 <= two_way <= 0.97 + 0.02
    assert nested < 0.8  # a seed that moves all items is not averaged away by more items
    of_ratio, refused = shared_ratio(60, 5, 0.5, 200)
    assert of_ratio >= 0.90
    assert refused < 0.05


def check_stopping(studies: int, slack: float) -> None:
    """Looking at the interval after every round and stopping when it is narrow leaves its coverage where it was."""
    for model, shape, width in (
        (plain, "exponential", 0.28),
        (plain, "lognormal", 0.24),
        (damages, "exponential", 0.24),
    ):
        s = stopping(shape, width, 960, studies, seed=3, model=model)
        assert FLOOR[shape, 50] - slack <= s.coverage <= 0.97 + slack, (model.__name__, shape, s)
        assert s.capped < 0.05
        assert 60 < s.items < 700


def test_coverage_with_stopping():
    check_stopping(600, 0.02)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_coverage_with_stopping_in_full():
    check_stopping(10_000, 0.0)


def check_verdicts(studies: int, slack: float) -> None:
    shares = {name: verdicts(truth, studies, seed=2) for name, truth in SCENARIOS.items()}
    for name in ("equal arms", "loss differs, accuracy does not"):
        assert shares[name]["crossed"] <= (0.05 + slack) * studies, (name, shares[name])
    assert shares["published effects"]["crossed"] >= (0.95 - slack) * studies
    for name in ("accuracy at the band's edge", "loss at the band's edge"):
        assert shares[name]["none"] <= (0.05 + slack) * studies, (name, shares[name])
    assert shares["equal arms, precise"]["none"] >= (0.95 - slack) * studies


def test_error_rates_of_the_verdict():
    check_verdicts(300, 0.015)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_error_rates_of_the_verdict_in_full():
    check_verdicts(10_000, 0.0)
