"""A number per block and arm with its interval: how errors travel, profiles over layers, curvature."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polarlens.report.figures.style import (
    ARMS,
    BLOCK_WIDTH,
    DASHES,
    FAINT,
    LOG_SPREAD,
    WIDTH,
    colour,
    linear_domain,
    log_scale,
    shape,
    tooltip,
)

if TYPE_CHECKING:
    import altair as alt

# the references that a figure may draw, with their dashes
REFERENCES = {"full": [1, 0], "random-1d": [2, 2], "majority": [8, 3, 2, 3]}
GREY = "#777777"
SHIFT = 0.1  # blocks between the arms, so that intervals do not hide each other


def curves(
    points: Sequence[dict[str, Any]],
    *,
    title: str,
    subtitle: Sequence[str],
    x: str,
    y: str,
    log: bool | None = None,
    percent: bool = False,
    level: float = 0.0,
    height: int = 220,
    groups: Sequence[str] = ARMS,
    blocks: Sequence[int] = (),
    references: Sequence[dict[str, Any]] = (),
) -> "alt.LayerChart":
    """Points with `block`, `arm`, `value` (a number), `low`, `high` and `shown`; blocks are drawn to scale.

    log: a log axis, which all values must be above 0 for; None: where they are, intervals too, and far apart. level:
    a faint line of reference. groups: what `arm` is one of. blocks: on the axis, though no point lies there; -1 are the
    embeddings. references: `block`, `value` and `name`, drawn as grey lines behind the points.
    """
    import altair as alt

    behind = [one["value"] for one in references]
    ends = [end for p in points for end in (p["value"], p["low"], p["high"]) if end is not None] + behind
    values = [p["value"] for p in points]
    if log is None:
        log = min(ends) > 0 and max(values) / min(values) >= LOG_SPREAD
    cut = False
    if log:
        # an interval on a log axis may reach down to 0 and below: it ends at the edge
        bottom = max(min(ends), min(values) / 10) if min(ends) > 0 else min(values) / 2
        top = min(max(ends), max(values) * 10)
        domain, ticks = log_scale(min(bottom, level or bottom), max(top, level))
        cut = min(ends) < domain[0] or max(ends) > domain[1]
        axis, scale = alt.Axis(values=ticks, format="~r"), alt.Scale(type="log", domain=domain, nice=False)
    else:
        domain, cut = linear_domain(points, level, *behind)
        axis = alt.Axis(tickCount=6, format="%" if percent else "~r")
        scale = alt.Scale(domain=domain, nice=False, zero=False)
    name = y + (", log scale" if log else "")
    arms = [arm for arm in groups if any(p["arm"] == arm for p in points)] or [points[0]["arm"]]
    shift = {arm: SHIFT * (k - (len(arms) - 1) / 2) for k, arm in enumerate(arms)}
    floor = domain[0] if log else None
    data = [{**p, "x": p["block"] + shift[p["arm"]], "low": _above(p["low"], floor)} for p in points]
    blocks = sorted({*blocks, *(p["block"] for p in points)})
    x_axis = alt.Axis(values=blocks, format="d", labelOverlap="greedy", labelSeparation=4, grid=False)
    if blocks[0] < 0:
        x_axis.labelExpr = "datum.value < 0 ? 'emb.' : datum.label"
    across = alt.X("x:Q", title=x, axis=x_axis)
    across = across.scale(domain=[blocks[0] - 0.5, blocks[-1] + 0.5], nice=False, zero=False)
    up, low = (alt.Y(f"{field}:Q", title=name, axis=axis, scale=scale) for field in ("value", "low"))
    base = alt.Chart(alt.InlineData(values=data)).encode(x=across)
    base = base.encode(color=colour(groups) if arms[0] in groups else alt.value("#333333"))
    lines = [
        base.transform_filter(f"datum.arm === '{arm}'").mark_line(strokeWidth=1.8, strokeDash=dash, clip=True)
        for arm, dash in zip(arms, DASHES, strict=False)
    ]
    bars = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=1.4, clip=True)
    marks = base.mark_point(filled=True, size=52, opacity=1, clip=True).encode(y=up, tooltip=tooltip("block"))
    layers: list[Any] = [
        *(line.encode(y=up) for line in lines),
        bars.encode(y=low, y2="high:Q"),
        marks.encode(shape=shape(groups)) if arms[0] in groups else marks,
    ]
    if references:
        layers.insert(0, _references(references).encode(x=across, y=up))
    if domain[0] <= level <= domain[1] and not (log and level <= 0):
        layers.insert(0, alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=FAINT).encode(y=alt.datum(level)))
    width = max(WIDTH, BLOCK_WIDTH * (blocks[-1] - blocks[0] + 1))
    lines_below = [*subtitle, *(["intervals are cut at the edges"] if cut else [])]
    heading = alt.TitleParams(text=title, subtitle=lines_below)
    return alt.LayerChart(layer=layers).properties(width=width, height=height, title=heading)


def _references(references: Sequence[dict[str, Any]]) -> "alt.Chart":
    """Grey lines, told apart by their dashes; a legend names those that are there."""
    import altair as alt

    names = [name for name in REFERENCES if any(one["name"] == name for one in references)]
    legend = alt.Legend(values=names, orient="bottom", symbolType="stroke", symbolSize=900)
    dash = alt.StrokeDash("name:N", legend=legend).scale(domain=list(REFERENCES), range=list(REFERENCES.values()))
    return (
        alt.Chart(alt.InlineData(values=[{**one, "x": one["block"]} for one in references]))
        .mark_line(strokeWidth=1.3, color=GREY)
        .encode(dash)
    )


def _above(low: float | None, floor: float | None) -> float | None:
    return low if low is None or floor is None else max(low, floor)
