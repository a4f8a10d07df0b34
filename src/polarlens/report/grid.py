"""A table as text: numbers with their intervals, and a reason where there is none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from polarlens.report.numbers import NONE, estimate, points, probability
from polarlens.report.series import Cell

Form = Callable[[float | None, Sequence[float] | None], str]
"""A value and its interval as text."""


def in_nats(value: float | None, ci95: Sequence[float] | None) -> str:
    """Three significant digits."""
    return estimate(value, ci95, "nats")


def in_points(value: float | None, ci95: Sequence[float] | None) -> str:
    """One decimal."""
    return estimate(value, ci95, "points")


def in_percent(value: float | None, ci95: Sequence[float] | None) -> str:
    """A fraction as `28.1 % [23.1, 33.1]`."""
    bounds = "" if ci95 is None else " [{}, {}]".format(*(points(100 * end) for end in ci95))
    return NONE if value is None else points(100 * value) + " %" + bounds


def p_value(one: Cell | None) -> str:
    """The adjusted p-value of a contrast."""
    return NONE if one is None else probability(one.get("p_holm"))


@dataclass
class Table:
    """A table as text. notes: what its numbered dashes mean; filled while the rows are made."""

    title: str
    head: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def number(self, one: Cell | None, key: str = "mean", form: Form = in_nats) -> str:
        """An entry's number with its interval; a dash that points to the reason where it has none."""
        if one is None:
            return NONE
        shown = form(one[key], one["ci95"])
        why = one.get("why")
        if why is None or (one[key] is not None and one["ci95"] is not None):
            return shown
        if why not in self.notes:
            self.notes.append(why)
        return f"{shown} ({self.notes.index(why) + 1})"
