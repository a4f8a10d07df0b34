"""Corrections for several deltas (and blocks): Holm's adjusted p-values and Bonferroni's simultaneous levels."""

from collections.abc import Sequence


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjusted p-values, in the order given.

    A missing p (an undefined test) stays missing but counts in the size of the family.
    """
    adjusted: list[float | None] = [None] * len(p)
    running = 0.0
    known = sorted((value, index) for index, value in enumerate(p) if value is not None)
    for rank, (value, index) in enumerate(known):
        running = max(running, min(1.0, (len(p) - rank) * value))
        adjusted[index] = running
    return adjusted


def bonferroni_level(level: float, family: int) -> float:
    """The level of one interval so that `family` of them hold together with probability `level` or more."""
    return 1.0 - (1.0 - level) / max(family, 1)
