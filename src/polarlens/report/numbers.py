"""Numbers as a reader sees them: few digits, no false precision, a dash where there is none."""

from collections.abc import Sequence

NONE = "–"
MINUS = "−"


def nats(value: float | None) -> str:
    """Three significant digits, as for losses and ratios."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    size = abs(value)
    text = f"{size:,.0f}" if size >= 1000 else f"{size:#.3g}".rstrip(".") if size >= 0.001 else f"{size:#.2g}"
    return _signed(value, text)


def points(value: float | None) -> str:
    """One decimal, as for accuracies of 0 to 100."""
    return NONE if value is None else _signed(value, f"{abs(value):.1f}")


def share(value: float | None) -> str:
    """A fraction as a percentage."""
    return NONE if value is None else f"{100 * value:.1f} %"


def probability(value: float | None) -> str:
    """A p-value; the smallest ones as a bound."""
    return NONE if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def number(value: float | None, unit: str) -> str:
    """A number of the given unit: `points`, or anything else for three significant digits."""
    return points(value) if unit == "points" else nats(value)


def interval(bounds: Sequence[float] | None, unit: str) -> str:
    """`[low, high]`, empty where there is none."""
    return "" if bounds is None else f"[{number(bounds[0], unit)}, {number(bounds[1], unit)}]"


def estimate(value: float | None, bounds: Sequence[float] | None, unit: str) -> str:
    """A number with its interval behind it."""
    return f"{number(value, unit)} {interval(bounds, unit)}".rstrip()


def listed(values: Sequence[object], last: str = "and") -> str:
    """`a, b and c`; floats as short as they are."""
    words = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""


def _signed(value: float, text: str) -> str:
    """A minus sign only where a digit other than 0 is left of the number."""
    return MINUS + text if value < 0 and text.strip("0.,") else text
