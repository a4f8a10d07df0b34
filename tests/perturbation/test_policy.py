"""Policies are data: levels, presets, antithetic members."""

import pytest

from polarlens.errors import UsageError
from polarlens.perturbation import ARMS, LEVELS, MATCHED, NOTEBOOK, PAPER, PerArm, Policy


def test_presets() -> None:
    assert MATCHED.as_dict() == {factor: levels[0] for factor, levels in LEVELS.items()}
    assert PAPER.as_dict() == {**MATCHED.as_dict(), "across_members": "independent", "antithetic": "off"}
    assert NOTEBOOK.as_dict() == {
        "across_layers": {"magnitude": "fresh", "angular": "shared"},
        "across_items": {"magnitude": "fresh", "angular": "by-length"},
        "across_members": {"magnitude": "independent", "angular": "common"},
        "antithetic": "off",
        "sign": "random",
        "matching": {"magnitude": "token", "angular": "mean"},
        "plane": "additive",
        "infeasible": "apply",
    }


def test_level_by_arm() -> None:
    assert [NOTEBOOK.level("across_layers", arm) for arm in ARMS] == ["fresh", "shared"]
    assert [MATCHED.level("plane", arm) for arm in ARMS] == ["orthogonal", "orthogonal"]


@pytest.mark.parametrize("factor", LEVELS)
def test_unknown_levels_are_refused_with_the_known_ones(factor: str) -> None:
    for wrong in ("sideways", PerArm(LEVELS[factor][0], "sideways")):
        with pytest.raises(UsageError, match=rf"'sideways'.*{factor}.*{LEVELS[factor][-1]}"):
            Policy(**{factor: wrong})
    for level in LEVELS[factor]:
        assert MATCHED.with_levels(**{factor: level}).level(factor, "angular") == level


@pytest.mark.parametrize(
    ("levels", "magnitude", "angular"),
    [
        ({}, (1, -1), (1, -1)),
        ({"antithetic": "off"}, (None,), (None,)),
        ({"sign": "grow"}, (None,), (1, -1)),
        ({"sign": "shrink"}, (None,), (1, -1)),
    ],
)
def test_antithetic_members(levels: dict[str, str], magnitude: tuple[int, ...], angular: tuple[int, ...]) -> None:
    policy = MATCHED.with_levels(**levels)
    assert policy.draw_signs("magnitude") == magnitude
    assert policy.draw_signs("angular") == angular
