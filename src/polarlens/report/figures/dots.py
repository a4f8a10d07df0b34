"""One row per name, a point with its interval for each arm: repairs, Shapley splits, effects of an audit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polarlens.report.figures.style import (
    ARMS,
    FAINT,
    INK,
    WIDTH,
    colour,
    linear_domain,
    shape,
    tooltip,
)

if TYPE_CHECKING:
    import altair as alt

UNDEFINED = "not defined"


def dots(
    points: Sequence[dict[str, Any]],
    names: Sequence[str],
    *,
    title: str,
    subtitle: Sequence[str],
    axis: str,
    percent: bool = False,
    groups: Sequence[str] = ARMS,
    published: Sequence[dict[str, Any]] = (),
    row: int = 34,
) -> "alt.LayerChart":
    """Points with `name`, `arm`, `value`, `low`, `high` and `shown`, in rows of `names` from the top.

    groups: the values of `arm`; where rows hold one group each, give `row` a smaller height and the points stand in
    its middle. published: points (`name`, `arm`, `value`, `shown`) that are marked with a cross.
    """
    import altair as alt

    several = any(sum(p["name"] == name for p in points) > 1 for name in names)
    domain, cut = linear_domain([*points, *(({**p, "low": None, "high": None}) for p in published)], 0.0)
    x_axis = alt.Axis(tickCount=6, format="%" if percent else "~r")
    x = alt.X("value:Q", title=axis, axis=x_axis, scale=alt.Scale(domain=domain, nice=False, zero=False))
    low = alt.X("low:Q", title=axis, axis=x_axis, scale=alt.Scale(domain=domain, nice=False, zero=False))
    y_axis = alt.Axis(domain=False, ticks=False, grid=False)
    y = alt.Y("name:N", title=None, sort=list(names), axis=y_axis).scale(domain=list(names))
    offset = alt.YOffset("arm:N").scale(domain=list(groups), paddingOuter=0.6)
    base = alt.Chart(alt.InlineData(values=list(points))).encode(y=y, color=colour(groups))
    if several:
        base = base.encode(yOffset=offset)
    known = base.transform_filter("datum.value !== null")
    zero = alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=FAINT).encode(x=alt.datum(0))
    bars = known.transform_filter("datum.low !== null").mark_rule(strokeWidth=1.6, clip=True)
    marks = known.mark_point(filled=True, size=64, opacity=1).encode(
        x=x, shape=shape(groups), tooltip=tooltip("name")
    )  # fmt: skip
    layers: list[Any] = [zero, bars.encode(x=low, x2="high:Q"), marks]
    if any(p["value"] is None for p in points):
        text = base.transform_filter("datum.value === null").mark_text(align="left", dx=4, fontSize=11)
        layers.append(text.encode(x=alt.datum(0), text=alt.value(UNDEFINED)))
    if published:
        paper = alt.Chart(alt.InlineData(values=list(published))).encode(y=y, yOffset=offset, x=x)
        cross = paper.mark_point(shape="cross", angle=45, size=70, color=INK, filled=True, opacity=1)
        layers.append(cross.encode(tooltip=tooltip("name")))
    lines = [*subtitle, *(["intervals are cut at the edges"] if cut else [])]
    heading = alt.TitleParams(text=title, subtitle=lines)
    height = row * len(names)
    return alt.LayerChart(layer=layers).properties(width=WIDTH, height=height, title=heading)
