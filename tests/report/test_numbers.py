import pytest

from polarlens.report.numbers import estimate, listed, nats, points, probability, share


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "–"), (0.0, "0"), (1.0, "1.00"), (3.14159, "3.14"), (-3.14159, "−3.14"), (42.94, "42.9")),
        *((123.4, "123"), (1234.5, "1,234"), (0.0123456, "0.0123"), (0.00042, "0.00042"), (-2.5e-5, "−2.5e-05")),
    ],
)
def test_three_significant_digits(value: float | None, text: str) -> None:
    assert nats(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (12.34, "12.3"), (-0.04, "0.0"), (-0.06, "−0.1"), (100.0, "100.0")]
)
def test_points_have_one_decimal_and_no_negative_zero(value: float | None, text: str) -> None:
    assert points(value) == text


def test_small_parts() -> None:
    assert [probability(p) for p in (None, 0.0, 0.0009, 0.0123, 1.0)] == ["–", "<0.001", "<0.001", "0.012", "1.000"]
    assert [share(x) for x in (None, 0.125)] == ["–", "12.5 %"]
    assert [listed(x) for x in ([], [1], [0.5, 0.1], ["a", "b", "c"])] == ["", "1", "0.5 and 0.1", "a, b and c"]
    assert estimate(-1.25, [-2.0, 0.5], "points") == "−1.2 [−2.0, 0.5]"
    assert estimate(0.5, None, "nats") == "0.500"
