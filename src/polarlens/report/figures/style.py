"""The look that all figures share: colours and shapes of the arms, axes, tooltips, and a chart as SVG."""

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from polarlens.report.numbers import estimate

if TYPE_CHECKING:
    import altair as alt

ChartT = TypeVar("ChartT", bound="alt.ConcatChart | alt.HConcatChart | alt.LayerChart")

# Okabe-Ito; told apart in grey by shape and dash.
ARMS = ("magnitude", "angular")
COLOURS = ("#0072B2", "#D55E00")
SHAPES = ("circle", "square")
DASHES = ([1, 0], [6, 3])
INK, FAINT = "#333333", "#b8b8b8"
TITLES = {"loss": "Next-token loss", "pairs": "Minimal pairs"}
LOG_SPREAD = 30  # from this ratio of largest to smallest, a linear axis hides the smaller ones
WIDTH, BLOCK_WIDTH = 320, 14  # pixels


def styled(chart: ChartT) -> ChartT:
    """The look of all figures, on a white ground."""
    return (
        chart.configure(font="Helvetica, Arial, sans-serif", background="white", padding=8)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=INK, titleColor=INK, labelFontSize=12, titleFontSize=12.5, titleFontWeight="normal",
            titlePadding=8, gridColor="#ececec", domainColor=INK, tickColor=INK, tickSize=4, labelLimit=340,
        )
        .configure_title(
            anchor="start", frame="group", fontSize=14, color=INK, subtitleColor=INK, subtitleFontSize=12, offset=10
        )
        .configure_legend(
            orient="top", title=None, labelFontSize=12.5, labelColor=INK, symbolSize=90, symbolStrokeWidth=2,
            columnPadding=18, offset=6,
        )
    )  # fmt: skip


def svg(chart: "alt.TopLevelMixin") -> str:
    """The chart as an SVG document."""
    text = io.StringIO()
    chart.save(text, format="svg")
    return text.getvalue()


def colour(groups: Sequence[str] = ARMS) -> "alt.Color":
    """Colour of the arms, or of two other groups."""
    import altair as alt

    return alt.Color("arm:N").scale(domain=list(groups), range=list(COLOURS))


def shape(groups: Sequence[str] = ARMS) -> "alt.Shape":
    """Shape of the arms, or of two other groups."""
    import altair as alt

    return alt.Shape("arm:N").scale(domain=list(groups), range=list(SHAPES))


def point(value: float | None, ci95: Sequence[float] | None, unit: str, **more: object) -> dict[str, Any]:
    """A datum with `value`, `low`, `high`, and the text of its tooltip."""
    low, high = ci95 or (None, None)
    return {"value": value, "low": low, "high": high, "shown": f"{estimate(value, ci95, unit)} {unit}".strip(), **more}


def tooltip(where: str) -> "list[alt.Tooltip]":
    """What hovering shows: the group, the place (field `where`) and the number with its interval."""
    import altair as alt

    return [alt.Tooltip("arm:N", title=""), alt.Tooltip(f"{where}:N"), alt.Tooltip("shown:N", title="95 % interval")]


def log_scale(low: float, high: float) -> tuple[list[float], list[float]]:
    """(domain, ticks at 1, 2 and 5 or at powers of ten) of a log axis around values from `low` to `high`."""
    low, high = low / 1.2, high * 1.2
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 432 else (1,)
    ticks = [float(f"{step}e{decade}") for decade in decades for step in steps]
    return [low, high], [tick for tick in ticks if low <= tick <= high]


def linear_domain(points: Sequence[Mapping[str, Any]], *marks: float) -> tuple[list[float], bool]:
    """(domain, whether it cuts intervals): all values and marks, and intervals up to one such span beyond them.

    An interval can be a hundred times wider than what the values span; drawn in full, it would hide them.
    """
    values = [one["value"] for one in points if one["value"] is not None] + list(marks)
    low, high = min(values), max(values)
    span = (high - low) or abs(high) or 1.0
    ends = [end for one in points for end in (one["low"], one["high"]) if end is not None]
    bottom, top = max([low - span, min([low, *ends])]), min([high + span, max([high, *ends])])
    margin = 0.05 * (top - bottom) or 1.0
    return [bottom - margin, top + margin], any(end < bottom or end > top for end in ends)
