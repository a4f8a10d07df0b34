"""The figure of a comparison: each model's loss ratio and accuracy contrast against delta, with 95 % intervals."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarlens.errors import UsageError
from polarlens.report.compare_shown import Document, by_norm, own
from polarlens.report.figures.dissociation import delta_axis
from polarlens.report.figures.style import COLOURS, FAINT, log_scale, styled, svg
from polarlens.report.shown import Entry, headline_noise, noises
from polarlens.rows.store import written_whole

if TYPE_CHECKING:
    import altair as alt

HUES = {"LayerNorm": COLOURS[0], "RMSNorm": COLOURS[1]}
OTHER = "#595959"
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4])
TITLES = {"loss": "Next-token loss", "pairs": "Minimal pairs"}
AXES = {"loss": "damage ratio, angular / magnitude", "pairs": "accuracy drop, magnitude − angular (points)"}
EQUAL = {"loss": 1.0, "pairs": 0.0}
WIDTH, HEIGHT, LABEL = 330, 250, 42

Series = list[tuple[str, str, list[Entry]]]  # label, hue, points


def series(document: Document, task: str) -> Series:
    """The drawn points of each model, LayerNorm models first; models without a point are left out."""
    out: Series = []
    for norm, runs in by_norm(document).items():
        for run in runs:
            points = [one for one in own(run, task) if one.value is not None]
            if points:
                out.append((f"{run['model']} ({norm})", HUES.get(norm, OTHER), points))
    return out


def compare_panels(document: Document) -> dict[str, "alt.LayerChart"]:
    """One chart per task; empty when no model has a defined contrast."""
    found = {task: series(document, task) for task in TITLES}
    return {task: _panel(document, task, lines) for task, lines in found.items() if lines}


def compare_chart(document: Document) -> "alt.HConcatChart":
    """Loss ratio on the left, accuracy contrast on the right. Raises UsageError when there is nothing to draw."""
    import altair as alt

    found = list(compare_panels(document).values())
    if not found:
        raise UsageError("there is nothing to draw: no model has a defined contrast of the arms")
    return styled(alt.hconcat(*found, spacing=36))


COMPARE_FIGURES: dict[str, Callable[[Document], "alt.HConcatChart"]] = {"ratio": compare_chart}


def write_compare_figure(folder: Path, document: Document) -> None:
    """Write compare-ratio.svg, .png (at twice the size) and .csv; nothing when there is nothing to draw."""
    if not any(series(document, task) for task in TITLES):
        return
    chart = compare_chart(document)
    picture = io.BytesIO()
    chart.save(picture, format="png", scale_factor=2)
    for suffix, content in (("svg", svg(chart).encode()), ("png", picture.getvalue()), ("csv", _csv(document))):
        with written_whole(folder / f"compare-ratio.{suffix}") as file:
            file.write(content)


def _csv(document: Document) -> bytes:
    """One line per point drawn."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    head = ["model", "norm_kind", "n_params", "task", "contrast", "measure", "delta", "layers", "positions"]
    table.writerow([*head, "policy_id", "pair_policy", "value", "ci95_low", "ci95_high"])
    for run in document["runs"]:
        for one in (entry for task in TITLES for entry in own(run, task)):
            c = one.condition
            model = [run["model"], run["norm_kind"], run["n_params"]]
            where = [one.task, one.what, one.source["measure"], c.delta, c.layers, c.positions, c.policy_id, one.noise]
            table.writerow([*model, *where, one.value, *(one.ci95 or (None, None))])
    return text.getvalue().encode()


def _panel(document: Document, task: str, lines: Series) -> "alt.LayerChart":
    import altair as alt

    every = [one for _, _, points in lines for one in points]
    x, place = delta_axis(document["runs"][0], every)
    data: list[dict[str, Any]] = []
    for index, (label, _, points) in enumerate(lines):
        for one in points:
            low, high = one.ci95 or (None, None)
            offset = index - (len(lines) - 1) / 2
            data.append({"x": place(one, offset), "y": one.value, "low": low, "high": high, "model": label})
    scale, axis, log = _scale(task, every)
    title = AXES[task] + (", log scale" if log else "")
    y, low_y = (alt.Y(f"{name}:Q", title=title, axis=axis, scale=scale) for name in ("y", "low"))
    names, hues = [label for label, _, _ in lines], [hue for _, hue, _ in lines]
    shapes = [SHAPES[index % len(SHAPES)] for index in range(len(lines))]
    legend = alt.Legend(columns=1, labelLimit=360)
    colour = alt.Color("model:N", legend=legend).scale(domain=names, range=hues)
    shape = alt.Shape("model:N", legend=legend).scale(domain=names, range=shapes)
    base = alt.Chart(alt.InlineData(values=data)).encode(x=x, color=colour)
    equal = alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=FAINT).encode(y=alt.datum(EQUAL[task]))
    strokes = [
        base.transform_filter(alt.FieldEqualPredicate(field="model", equal=name))
        .mark_line(strokeWidth=1.8, strokeDash=DASHES[index % len(DASHES)])
        .encode(y=y)
        for index, name in enumerate(names)
    ]
    bars = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=1.4).encode(y=low_y, y2="high:Q")
    marks = base.mark_point(filled=True, size=64, opacity=1).encode(y=y, shape=shape)
    heading = alt.TitleParams(text=TITLES[task], subtitle=_subtitle(task, every))
    return alt.LayerChart(layer=[equal, *strokes, bars, marks]).properties(width=WIDTH, height=HEIGHT, title=heading)


def _scale(task: str, every: list[Entry]) -> tuple["alt.Scale", "alt.Axis", bool]:
    """A log axis for ratios whose intervals are all above 0; both axes hold the line of equal arms."""
    import altair as alt

    ends = [EQUAL[task], *(one.value or 0.0 for one in every), *(end for one in every for end in one.ci95 or ())]
    low, high = min(ends), max(ends)
    if task == "loss" and low > 0:
        domain, ticks = log_scale(low, high)
        return alt.Scale(type="log", domain=domain, nice=False), alt.Axis(values=ticks, format="~r"), True
    margin = 0.06 * (high - low) or 1.0
    scale = alt.Scale(domain=[low - margin, high + margin], nice=False, zero=False)
    return scale, alt.Axis(tickCount=6, format="~r"), False


def _subtitle(task: str, every: list[Entry]) -> list[str]:
    shown = "with 95 % intervals" if any(one.ci95 for one in every) else "no intervals"
    noise = headline_noise([name for _, name in noises(every)])
    return [f"{shown}; grey line: both arms alike", f"noise: {noise}" if noise else "each model at its own blocks"]
