"""The report's figures as Vega-Altair charts, drawn from the summary alone, and the files they are written to."""

import csv
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from polarlens.errors import UsageError
from polarlens.report.shown import (
    UNITS,
    Entry,
    Summary,
    blocks,
    damages,
    displacement,
    loss_measure,
    noises,
    positions_run,
    reference,
)
from polarlens.rows.store import written_whole

if TYPE_CHECKING:
    import altair as alt

ChartT = TypeVar("ChartT", bound="alt.HConcatChart | alt.LayerChart")

# Okabe-Ito; told apart in grey by shape and dash.
ARMS = ("magnitude", "angular")
COLOURS = ("#0072B2", "#D55E00")
SHAPES = ("circle", "square")
DASHES = ([1, 0], [6, 3])
INK, FAINT = "#333333", "#b8b8b8"
TITLES = {"loss": "Next-token loss", "pairs": "Minimal pairs"}
AXES = {"loss": "loss damage (nats per token)", "pairs": "accuracy drop (points)"}
LOG_SPREAD = 30  # from this ratio of largest to smallest damage, a linear axis hides the smaller ones
HOLLOW = "independent"
WIDTH, BLOCK_WIDTH = 320, 14  # pixels


def drawn(summary: Summary) -> list[Entry]:
    """The damages in the figure: the headline's positions; one delta where several groups of layers were run."""
    entries = damages(summary, next(iter(positions_run(summary)), None))
    entries = [entry for entry in entries if entry.value is not None]
    if len(blocks(entries)) > 1:
        delta = reference(summary, entries)
        entries = [entry for entry in entries if entry.condition.delta == delta]
    return entries


def panels(summary: Summary) -> dict[str, "alt.LayerChart"]:
    """One chart per task that was run, each complete in itself; empty when nothing was measured."""
    entries = drawn(summary)
    by_block = len(blocks(entries)) > 1
    series = {task: [e for e in entries if e.task == task] for task in dict.fromkeys(t for t, _ in noises(entries))}
    return {task: _panel(summary, task, members, by_block) for task, members in series.items()}


def dissociation(summary: Summary) -> "alt.HConcatChart":
    """Damage of both arms with 95 % intervals: next-token loss on the left, accuracy on the right.

    Against delta; against the block, at one delta, where several groups of layers were run.

    Raises UsageError when the summary holds no damage.
    """
    import altair as alt

    found = list(panels(summary).values())
    if not found:
        raise UsageError("there is nothing to draw", where=str(summary["model"]), fix="Run the sweep on a task.")
    return styled(alt.hconcat(*found, spacing=36))


FIGURES: dict[str, Callable[[Summary], "alt.HConcatChart"]] = {"dissociation": dissociation}


def styled(chart: ChartT) -> ChartT:
    """The look of all figures, on a white ground."""
    return (
        chart.configure(font="Helvetica, Arial, sans-serif", background="white", padding=8)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=INK, titleColor=INK, labelFontSize=12, titleFontSize=12.5, titleFontWeight="normal",
            titlePadding=8, gridColor="#ececec", domainColor=INK, tickColor=INK, tickSize=4,
        )
        .configure_title(
            anchor="start", frame="group", fontSize=14, color=INK, subtitleColor=INK, subtitleFontSize=12, offset=10
        )
        .configure_legend(
            orient="top", title=None, labelFontSize=12.5, labelColor=INK, symbolSize=90, symbolStrokeWidth=2,
            columnPadding=18, offset=6,
        )
    )  # fmt: skip


def write_figure(folder: Path, name: str, summary: Summary) -> None:
    """Write NAME.svg, NAME.png (at twice the size) and NAME.csv, the numbers drawn; nothing when there are none."""
    entries = drawn(summary)
    if not entries:
        return
    chart = FIGURES[name](summary)
    picture = io.BytesIO()
    chart.save(picture, format="png", scale_factor=2)
    for suffix, content in (("svg", svg(chart).encode()), ("png", picture.getvalue()), ("csv", _csv(summary, entries))):
        with written_whole(folder / f"{name}.{suffix}") as file:
            file.write(content)


def svg(chart: "alt.TopLevelMixin") -> str:
    """The chart as an SVG document."""
    text = io.StringIO()
    chart.save(text, format="svg")
    return text.getvalue()


def _csv(summary: Summary, entries: list[Entry]) -> bytes:
    """One line per point: the summary's numbers in full, empty where there is none."""
    head = [
        *("task", "measure", "unit", "arm", "delta", "layers", "positions", "policy_id", "pair_policy"),
        *("mean", "ci95_low", "ci95_high", "n_items", "n_seeds"),
    ]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(head)
    for one in entries:
        c = one.condition
        measure = loss_measure(summary) if one.task == "loss" else "accuracy"
        where = [one.task, measure, UNITS[one.task], one.what, c.delta, c.layers, c.positions, c.policy_id, one.noise]
        table.writerow([*where, one.value, *(one.ci95 or (None, None)), one.source["n_items"], one.source["n_seeds"]])
    return text.getvalue().encode()


def _panel(summary: Summary, task: str, entries: list[Entry], by_block: bool) -> "alt.LayerChart":
    import altair as alt

    groups = blocks(entries)
    noise = [name for _, name in noises(entries)]
    series = [(name, arm) for name in noise for arm in ARMS]
    x, place = _block_axis(groups) if by_block else delta_axis(summary, entries)
    data: list[dict[str, Any]] = []
    for entry in entries:
        offset = series.index((entry.noise, entry.what)) - (len(series) - 1) / 2
        low, high = entry.ci95 or (None, None)
        point = {"x": place(entry, offset), "damage": entry.value, "low": low, "high": high, "arm": entry.what}
        hollow = len(noise) > 1 and entry.noise == HOLLOW
        data.append({**point, "series": f"{entry.noise} {entry.what}", "hollow": hollow})
    log, bounds, ticks = _damage_axis(entries)
    scale = alt.Scale(type="log" if log else "linear", domain=bounds, nice=False, zero=False)
    axis = alt.Axis(values=ticks, format="~r") if log else alt.Axis(tickCount=6, format="~r")
    title = AXES[task] + (", log scale" if log else "")
    y, low_y = (alt.Y(f"{name}:Q", title=title, axis=axis, scale=scale) for name in ("damage", "low"))
    colour = alt.Color("arm:N").scale(domain=list(ARMS), range=list(COLOURS))
    shape = alt.Shape("arm:N").scale(domain=list(ARMS), range=list(SHAPES))
    base = alt.Chart(alt.InlineData(values=data)).encode(x=x, color=colour)
    lines = [
        base.transform_filter(f"datum.arm === '{arm}'")
        .mark_line(strokeWidth=1.8, strokeDash=dash)
        .encode(y=y, detail="series:N")
        for arm, dash in zip(ARMS, DASHES, strict=True)
    ]
    bars = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=1.4).encode(y=low_y, y2="high:Q")
    full = base.transform_filter("!datum.hollow").mark_point(filled=True, size=64, opacity=1).encode(y=y, shape=shape)
    open_ = base.transform_filter("datum.hollow").mark_point(filled=False, fill="white", size=64, opacity=1)
    layers: list[Any] = [*lines, bars, full, open_.encode(y=y, shape=shape)]
    if not log:
        zero = alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=FAINT).encode(y=alt.datum(0))
        layers.insert(0, zero)
    heading = alt.TitleParams(text=TITLES[task], subtitle=_subtitle(summary, task, noise, entries, by_block))
    width = max(WIDTH, BLOCK_WIDTH * len(groups)) if by_block else WIDTH
    return alt.LayerChart(layer=layers).properties(width=width, height=250, title=heading)


Place = Callable[[Entry, float], float]


def delta_axis(summary: Summary, entries: list[Entry]) -> tuple["alt.X", Place]:
    """A log axis with a tick at each delta; series that share a delta stand side by side."""
    import altair as alt

    deltas = sorted({entry.condition.delta for entry in entries})
    span = math.log(deltas[-1] / deltas[0]) or 1.0
    step, margin = math.exp(0.014 * span), math.exp(0.08 * span)
    axis = alt.Axis(values=deltas, format="~g", labelOverlap="greedy", labelSeparation=4, grid=False)
    x = alt.X("x:Q", title=displacement(summary), axis=axis)
    x = x.scale(type="log", domain=[deltas[0] / margin, deltas[-1] * margin], nice=False)
    return x, lambda entry, offset: entry.condition.delta * step**offset


def _block_axis(groups: list[str | None]) -> tuple["alt.X", Place]:
    """The perturbed blocks in order, evenly spaced."""
    import altair as alt

    labels = json.dumps([group or "" for group in groups])
    axis = alt.Axis(
        values=list(range(len(groups))),
        labelExpr=f"{labels}[datum.value]",
        labelOverlap="greedy",
        labelSeparation=4,
        grid=False,
    )
    x = alt.X("x:Q", title="perturbed block", axis=axis).scale(domain=[-0.6, len(groups) - 0.4], nice=False)
    return x, lambda entry, offset: groups.index(entry.condition.layers) + 0.12 * offset


def _damage_axis(entries: list[Entry]) -> tuple[bool, list[float], list[float]]:
    """(log, domain, ticks): a log axis where losses are far apart and, with their intervals, all above 0."""
    values = [entry.value or 0.0 for entry in entries]
    ends = [*values, *(end for entry in entries for end in entry.ci95 or ())]
    low, high = min(ends), max(ends)
    if entries[0].task == "loss" and low > 0 and max(values) / min(values) >= LOG_SPREAD:
        return True, *log_scale(low, high)
    low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.06 * (high - low) or 1.0
    return False, [low - margin if low < 0 or high == 0 else 0.0, high + margin], []


def log_scale(low: float, high: float) -> tuple[list[float], list[float]]:
    """(domain, ticks at 1, 2 and 5 or at powers of ten) of a log axis around values from `low` to `high`."""
    low, high = low / 1.2, high * 1.2
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 432 else (1,)
    ticks = [float(f"{step}e{decade}") for decade in decades for step in steps]
    return [low, high], [tick for tick in ticks if low <= tick <= high]


def _subtitle(summary: Summary, task: str, noise: list[str | None], entries: list[Entry], by_block: bool) -> list[str]:
    """Two lines: what is drawn, and how it is averaged or which noise stands behind which mark."""
    shown = "mean and 95 % interval" if any(entry.ci95 for entry in entries) else "mean (no interval)"
    first = shown + (f", at delta {entries[0].condition.delta:g}" if by_block else "")
    if task == "loss":
        return [first, "all tokens together" if loss_measure(summary) == "nll" else "mean over texts"]
    if len(noise) == 1:
        return [first, f"noise: {noise[0]}"]
    filled = ", ".join(name or "" for name in noise if name != HOLLOW)
    return [first, f"noise: {filled} (filled), {HOLLOW} (hollow)"]
