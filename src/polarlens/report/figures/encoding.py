"""Encoding against computation: what can be read from direction and norm, and what changing either costs, by block."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polarlens.report.figures.curves import REFERENCES, curves
from polarlens.report.figures.style import point
from polarlens.report.probes import POOLING, alone, at, block_of, noise_shown, probed_blocks, scores, unit
from polarlens.report.series import Cell
from polarlens.report.shown import Entry, Summary, loss_measure

if TYPE_CHECKING:
    import altair as alt

# a representation and the arm that changes it share colour and shape
GROUPS = ("norm, magnitude", "direction, angular")
GROUP_OF = {"norm": GROUPS[0], "magnitude": GROUPS[0], "direction": GROUPS[1], "angular": GROUPS[1]}
DRAWN = (("upos", "accuracy"), ("depth", "gain"))


def encoding_panels(summary: Summary) -> "dict[str, alt.LayerChart]":
    """Two panels of probes on clean states, two of damages where one block alone is perturbed."""
    blocks, damage = probed_blocks(summary), alone(summary)
    noise = noise_shown(damage)
    read = ["probes on held-out sentences", f"pooling: {POOLING} token of a word; 95 % intervals"]
    found: dict[str, tuple[list[dict[str, Any]], Sequence[str], str, list[dict[str, Any]]]] = {
        "Read: part of speech": (_read(summary, *DRAWN[0]), read, "accuracy (points)", _behind(summary, *DRAWN[0])),
        "Read: parse depth": (
            _read(summary, *DRAWN[1]), read, "gain in R² over confounds", _behind(summary, *DRAWN[1])
        ),
        "Used: next-token loss": _used(at(damage, "loss", None), "loss damage (nats per token)"),
        "Used: minimal pairs": _used(at(damage, "pairs", noise), "accuracy drop (points)"),
    }  # fmt: skip
    return {
        title: curves(
            points, title=title, subtitle=below, x="block", y=y, groups=GROUPS, blocks=blocks, references=behind,
            log=False if title.startswith("Read") else None,
        )
        for title, (points, below, y, behind) in found.items() if points
    }  # fmt: skip


def encoding_lines(summary: Summary) -> list[dict[str, object]]:
    """Every score that is drawn, under both poolings, and every damage of a single block, under all pair policies."""
    shown = [*GROUP_OF, *REFERENCES]
    found = [
        _line(
            one, one.get("block"), one["representation"], one["target"], one["metric"], unit(one["metric"]),
            pooling=one.get("pooling"),
        )
        for one in scores(summary)
        if (one["target"], one["metric"]) in DRAWN and one["representation"] in shown
    ]  # fmt: skip
    measure = loss_measure(summary)
    for entry in alone(summary):
        what = measure if entry.task == "loss" else "accuracy"
        more = {"pair_policy": entry.noise, "policy_id": entry.condition.policy_id, "delta": entry.condition.delta}
        found.append(_line(entry.source, block_of(entry), entry.what, entry.task, what, entry.unit, **more))
    return found


def _line(
    one: Cell, block: int | None, series: str, about: str, measure: str, unit: str, **more: object
) -> dict[str, object]:
    low, high = one["ci95"] or (None, None)
    named = {"pooling": None, "pair_policy": None, "policy_id": None, "delta": None} | more
    return {
        **{"quantity": one["measure"] if one["measure"] == "score" else "damage", "block": block, "series": series},
        **{"of": about, "measure": measure, "unit": unit, **named},
        **{"mean": one["mean"], "ci95_low": low, "ci95_high": high, "n_items": one["n_items"]},
    }


def _read(summary: Summary, target: str, metric: str) -> list[dict[str, Any]]:
    """Scores of direction and norm."""
    return [
        point(one["mean"], one["ci95"], unit(metric), arm=GROUP_OF[one["representation"]], block=one["block"])
        for one in _scores(summary, target, metric)
        if one["representation"] in GROUP_OF and one.get("pooling") == POOLING
    ]


def _behind(summary: Summary, target: str, metric: str) -> list[dict[str, Any]]:
    """Scores of the references; one that belongs to no block spans all of them."""
    blocks, out = probed_blocks(summary), []
    for one in _scores(summary, target, metric):
        if one["representation"] in REFERENCES and one.get("pooling") in (POOLING, None):
            spans = [one["block"]] if "block" in one else blocks
            out += [{"block": block, "value": one["mean"], "name": one["representation"]} for block in spans]
    return out


def _scores(summary: Summary, target: str, metric: str) -> list[Cell]:
    found = [one for one in scores(summary) if (one["target"], one["metric"]) == (target, metric)]
    return [one for one in found if one["mean"] is not None]


def _used(entries: list[Entry], axis: str) -> tuple[list[dict[str, Any]], Sequence[str], str, list[dict[str, Any]]]:
    """Damages of one task."""
    kept = [one for one in entries if one.value is not None]
    points = [point(one.value, one.ci95, one.unit, arm=GROUP_OF[one.what], block=block_of(one)) for one in kept]
    if not kept:
        return [], [], axis, []
    noise = f"{kept[0].noise} noise; " if kept[0].noise else ""
    below = [f"that block alone perturbed, delta {kept[0].condition.delta:g}", f"{noise}95 % intervals"]
    return points, below, axis, []
