"""The double dissociation: what both arms cost in loss and in accuracy."""

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from polarlens.report.figures.style import (
    ARMS,
    BLOCK_WIDTH,
    DASHES,
    FAINT,
    LOG_SPREAD,
    TITLES,
    WIDTH,
    colour,
    log_scale,
    point,
    shape,
    tooltip,
)
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

if TYPE_CHECKING:
    import altair as alt

AXES = {"loss": "loss damage (nats per token)", "pairs": "accuracy drop (points)"}
HOLLOW = "independent"


def drawn(summary: Summary) -> list[Entry]:
    """The damages in the figure: the headline's positions; one delta where several groups of layers were run."""
    entries = damages(summary, next(iter(positions_run(summary)), None))
    entries = [entry for entry in entries if entry.value is not None]
    if len(blocks(entries)) > 1:
        delta = reference(summary, entries)
        entries = [entry for entry in entries if entry.condition.delta == delta]
    return entries


def dissociation_panels(summary: Summary) -> dict[str, "alt.LayerChart"]:
    """Damage of both arms with 95 % intervals, one chart per task that was run; empty when nothing was measured.

    Against delta; against the block, at one delta, where several groups of layers were run.
    """
    entries = drawn(summary)
    by_block = len(blocks(entries)) > 1
    series = {task: [e for e in entries if e.task == task] for task in dict.fromkeys(t for t, _ in noises(entries))}
    return {TITLES[task]: _panel(summary, task, members, by_block) for task, members in series.items()}


def dissociation_lines(summary: Summary) -> list[dict[str, object]]:
    """One line per point."""
    found: list[dict[str, object]] = []
    for one in drawn(summary):
        c = one.condition
        low, high = one.ci95 or (None, None)
        found.append(
            {
                **{"task": one.task, "measure": loss_measure(summary) if one.task == "loss" else "accuracy"},
                **{"unit": UNITS[one.task], "arm": one.what, "delta": c.delta, "layers": c.layers},
                **{"positions": c.positions, "policy_id": c.policy_id, "pair_policy": one.noise},
                **{"mean": one.value, "ci95_low": low, "ci95_high": high},
                **{"n_items": one.source["n_items"], "n_seeds": one.source["n_seeds"]},
            }
        )
    return found


def _panel(summary: Summary, task: str, entries: list[Entry], by_block: bool) -> "alt.LayerChart":
    import altair as alt

    groups = blocks(entries)
    noise = [name for _, name in noises(entries)]
    series = [(name, arm) for name in noise for arm in ARMS]
    x, place = _block_axis(groups) if by_block else delta_axis(summary, entries)
    data: list[dict[str, Any]] = []
    for entry in entries:
        offset = series.index((entry.noise, entry.what)) - (len(series) - 1) / 2
        hollow = len(noise) > 1 and entry.noise == HOLLOW
        datum = point(entry.value, entry.ci95, entry.unit, x=place(entry, offset), arm=entry.what, hollow=hollow)
        delta = f"{entry.condition.delta:g}"
        data.append({**datum, "delta": delta, "series": f"{entry.noise} {entry.what}"})
    log, bounds, ticks = _damage_axis(entries)
    scale = alt.Scale(type="log" if log else "linear", domain=bounds, nice=False, zero=False)
    axis = alt.Axis(values=ticks, format="~r") if log else alt.Axis(tickCount=6, format="~r")
    title = AXES[task] + (", log scale" if log else "")
    y, low_y = (alt.Y(f"{name}:Q", title=title, axis=axis, scale=scale) for name in ("value", "low"))
    base = alt.Chart(alt.InlineData(values=data)).encode(x=x, color=colour())
    lines = [
        base.transform_filter(f"datum.arm === '{arm}'")
        .mark_line(strokeWidth=1.8, strokeDash=dash)
        .encode(y=y, detail="series:N")
        for arm, dash in zip(ARMS, DASHES, strict=True)
    ]
    bars = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=1.4).encode(y=low_y, y2="high:Q")
    full = base.transform_filter("!datum.hollow").mark_point(filled=True, size=64, opacity=1)
    open_ = base.transform_filter("datum.hollow").mark_point(filled=False, fill="white", size=64, opacity=1)
    points = [part.encode(y=y, shape=shape(), tooltip=tooltip("delta")) for part in (full, open_)]
    layers: list[Any] = [*lines, bars, *points]
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
