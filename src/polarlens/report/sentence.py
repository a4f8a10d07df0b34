"""The verdict of a run as one plain English sentence with its numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polarlens.report.numbers import estimate, listed, number
from polarlens.report.shown import Entry, Summary, contrasts, damages, loss_measure, positions_run, reference

_CROSSED = "changing {} costs more next-token loss and changing {} costs more accuracy on minimal pairs"


@dataclass(frozen=True)
class _Place:
    """Where the numbers of the sentence are taken from."""

    delta: float
    layers: str | None
    noise: str | None


def sentence(summary: Summary) -> str:
    """One sentence for the verdict of a summary: what holds, where, and the two contrasts with 95 % intervals.

    "Direction" is the angular arm, "magnitude" the magnitude arm; a difference is the first number named minus the
    second.
    """
    verdict = summary["verdict"]
    kind, why = verdict["kind"], verdict["why"]
    if kind == "uninformative":
        return _sentence(f"Nothing can be said about direction and magnitude: {why}", _baseline(summary))
    entries = contrasts(summary, _positions(summary))
    differences = [entry for entry in entries if entry.what == "difference"]
    place = _place(summary, differences)
    numbers = _numbers(summary, differences, place) if place else ""
    if kind == "inconclusive":
        return _sentence(f"Whether direction and magnitude carry different abilities is not settled: {why}", numbers)
    at = "" if kind == "mixed" and verdict.get("by_delta") else f", at delta {listed(verdict['deltas'])}"
    where = at + _blocks(verdict)
    return _sentence(_finding(verdict, differences, place) + where + _agreement(verdict), numbers)


def _positions(summary: Summary) -> str | None:
    """The positions of the headline: the verdict's own, else the first that were run."""
    return summary["verdict"].get("positions") or next(iter(positions_run(summary)), None)


def _finding(verdict: Mapping[str, Any], differences: Sequence[Entry], place: _Place | None) -> str:
    """What holds, without numbers but the bands."""
    kind, bands = verdict["kind"], verdict.get("bands") or {}
    points = f"within {bands['points']:g} points" if bands else "within the band"
    ratio = f"within a factor of {bands['loss_ratio']:g}" if bands else "within the band"
    if kind == "crossed":
        return f"Direction and magnitude carry different abilities: {_CROSSED.format('direction', 'magnitude')}"
    if kind == "reversed":
        opposite = _CROSSED.format("magnitude", "direction")
        return f"Direction and magnitude carry different abilities, contrary to the paper's order: {opposite}"
    if kind == "same_arm":
        return f"No dissociation: changing {_worse_arm(verdict)} costs more on both tasks"
    if kind == "loss_only":
        worse = _worse(differences, place, "loss", "direction", "magnitude")
        return f"Only next-token loss tells the two apart: changing {worse} costs more, and accuracy is equal {points}"
    if kind == "syntax_only":
        worse = _worse(differences, place, "pairs", "magnitude", "direction")
        return (
            "Only accuracy on minimal pairs tells the two apart: "
            f"changing {worse} costs more, and the loss damages are equal {ratio}"
        )
    if kind == "none":
        return f"Direction and magnitude do equal damage: accuracy {points} and loss {ratio}"
    mixture = _mixture(verdict)
    return "Different answers hold in different places" + (f" ({mixture})" if mixture else "")


def _worse(differences: Sequence[Entry], place: _Place | None, task: str, above: str, below: str) -> str:
    found = _at(differences, place, task) if place else None
    return "one of them" if found is None or found.value is None else above if found.value > 0 else below


def _worse_arm(verdict: Mapping[str, Any]) -> str:
    names = {"angular": "direction", "magnitude": "magnitude"}
    arms = sorted({names[one["arm"]] for one in verdict.get("by_delta", ()) if one.get("arm") in names})
    return listed(arms, "or (elsewhere)") if arms else "one of them"


def _mixture(verdict: Mapping[str, Any]) -> str:
    """Each kind with its deltas."""
    found: dict[str, set[float]] = {}
    for one in verdict.get("by_delta", ()):
        if one["usable"] and one["kind"] not in ("inconclusive", "none"):
            found.setdefault(one["kind"], set()).add(one["delta"])
    return "; ".join(
        f"{kind.replace('_', ' ')} at delta {listed(sorted(deltas))}" for kind, deltas in sorted(found.items())
    )


def _blocks(verdict: Mapping[str, Any]) -> str:
    """How many of the blocks show it, where several were perturbed one by one."""
    kinds = [one["kind"] for one in (verdict.get("by_layer") or {}).values()]
    return f", in {kinds.count(verdict['kind'])} of {len(kinds)} blocks" if kinds else ""


def _agreement(verdict: Mapping[str, Any]) -> str:
    names = [name for name, kind in verdict["by_pair_policy"].items() if kind is not None]
    return f", under {listed(names)} noise alike" if len(names) > 1 else ""


def _place(summary: Summary, differences: list[Entry]) -> _Place | None:
    """A place where the verdict holds: the reference delta, the middle block, independent noise before others."""
    verdict = summary["verdict"]
    deltas = verdict["deltas"]
    holding = {
        (one["delta"], one["layers"])
        for one in verdict.get("by_delta", ())
        if one["usable"] and (one["kind"] == verdict["kind"] or verdict["kind"] in ("mixed", "inconclusive"))
    }
    here = [e for e in differences if not deltas or e.condition.delta in deltas]
    here = [e for e in here if (e.condition.delta, e.condition.layers) in holding] or here or differences
    if not here:
        return None
    delta = reference(summary, here)
    groups = list(dict.fromkeys(e.condition.layers for e in here if e.condition.delta == delta))
    noise = sorted({e.noise for e in here if e.noise is not None}, key=lambda name: (name != "independent", name))
    return _Place(delta, groups[len(groups) // 2], noise[0] if noise else None)


def _at(entries: Sequence[Entry], place: _Place, task: str, what: str = "difference") -> Entry | None:
    noise = place.noise if task == "pairs" else None
    wanted = (what, task, noise, place.delta, place.layers)
    return next(
        (e for e in entries if (e.what, e.task, e.noise, e.condition.delta, e.condition.layers) == wanted), None
    )


def _numbers(summary: Summary, differences: Sequence[Entry], place: _Place) -> str:
    """`at delta 0.1 the loss rises by ... and accuracy falls by ...`."""
    arms = damages(summary, _positions(summary))
    several = len({e.condition.layers for e in differences}) > 1
    noise = f", {place.noise} noise" if place.noise else ""
    parts = []
    for task, verb, order in (
        ("loss", "loss rises by", ("angular", "magnitude")),
        ("pairs", "accuracy falls by", ("magnitude", "angular")),
    ):
        found = _at(differences, place, task)
        damage = [_at(arms, place, task, arm) for arm in order]
        if found is None or any(one is None for one in damage):
            continue
        unit = found.unit
        first, second = (
            f"{number(one.value if one else None, unit)}{f' {unit}' if i == 0 else ''} for {_NAMES[arm]}"
            for i, (one, arm) in enumerate(zip(damage, order, strict=True))
        )
        difference = f"difference {estimate(found.value, found.ci95, unit)}{noise if task == 'pairs' else ''}"
        parts.append(f"{verb} {first} and {second} ({difference})")
    at = f"at delta {place.delta:g}" + (f" and block {place.layers}" if several else "")
    return f"{at} {', and '.join(parts)}" if parts else ""


_NAMES = {"angular": "direction", "magnitude": "magnitude"}


def _baseline(summary: Summary) -> str:
    loss, pairs = summary["baseline"]["loss"], summary["baseline"]["pairs"]
    parts = []
    if loss is not None:
        parts.append(f"clean loss is {number(loss[loss_measure(summary)]['mean'], 'nats')} nats per token")
    if pairs is not None:
        parts.append(f"clean accuracy is {number(pairs['accuracy'], 'points')} points")
    return " and ".join(parts)


def _sentence(*parts: str) -> str:
    return "; ".join(part.rstrip(" ,;.") for part in parts if part) + "."
