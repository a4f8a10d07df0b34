"""`--ci-width`: the sweep's texts come in rounds that double, until the loss ratio of a delta is as precise as asked.

The first texts are those of the smallest digests, so that a round is a random sample whatever the file's order and the
texts' lengths. What the next round holds follows from the rows of the rounds before it alone: an interrupted run goes
on as it would have, and a narrower width adds rounds to those that are there.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from polarlens.protocol.plan import Asked, Done, ItemKey, Wanted
from polarlens.protocol.prepared import Prepared
from polarlens.protocol.presets import policies_as_data
from polarlens.rows.store import read_rows
from polarlens.statistics.precision import Look, look_at_rows, rounds
from polarlens.statistics.summary import LOSS_MEASURE

ABOUT = "sweep/loss"  # whose texts come in rounds


@dataclass(frozen=True)
class Rounds:
    """The rounds begun so far, the last of which may lack rows.

    width: relative half-width wanted of the loss ratio. cap: all texts there are. sizes: texts that each round begun
    takes the run to. looks: delta -> what its latest whole round says, None before the first.
    """

    width: float
    cap: int
    sizes: tuple[int, ...]
    wanted: tuple[Wanted, ...]
    looks: Mapping[float, Look | None]

    @property
    def document(self) -> dict[str, Any]:
        """Plain data, for manifest and summary."""
        return {
            "width": self.width,
            "cap": self.cap,
            "rounds": list(self.sizes),
            "done": all(look is not None and look.stop for look in self.looks.values()),
            "deltas": [_entry(delta, look, self.width) for delta, look in sorted(self.looks.items())],
        }

    @property
    def note(self) -> str:
        """The last round in words."""
        deltas = sorted({asked.condition.delta for asked in self.wanted[-1].asked})
        shown = ", ".join(f"{delta:g}" for delta in deltas)
        return f"round {len(self.sizes)}: {self.sizes[-1]} of {self.cap} texts at delta {shown}"


def _entry(delta: float, look: Look | None, width: float) -> dict[str, Any]:
    if look is None:
        return {"delta": delta, "n_items": 0, "half_width": None, "reached": False, "why": "no round is whole yet"}
    reached = look.half_width is not None and look.half_width <= width
    found = {"n_items": look.n_items, "half_width": look.half_width, "reached": reached, "why": look.why}
    return {"delta": delta, **found}


def in_rounds(
    prepared: Prepared, every: Collection[Wanted], earlier: Collection[Wanted], folder: Path, done: Done
) -> tuple[list[Wanted], Rounds | None]:
    """What is wanted, the sweep's texts in rounds where a width is asked for; the rounds, or None where none is.

    earlier: what the folder's manifest wants. done: what the folder holds.
    """
    width = prepared.config.ci_width
    if width is None:
        return list(every), None
    whole = next(one for one in every if one.about == ABOUT)
    held = {key for one in earlier if one.about == ABOUT for key in one.items}
    found = _replayed(prepared, whole, held, folder, done, width)
    return [*(one for one in every if one is not whole), *found.wanted], found


def _replayed(
    prepared: Prepared, whole: Wanted, held: Collection[ItemKey], folder: Path, done: Done, width: float
) -> Rounds:
    """Take every decision again, from the first round on, until rows are missing or every delta has stopped."""
    preset = prepared.config.preset
    policies, measure = policies_as_data(preset), LOSS_MEASURE.get(preset, "nll")
    order = in_order(whole.items, held)
    sizes = [0, *rounds(len(order))]
    going = sorted({asked.condition.delta for asked in whole.asked})
    looks: dict[float, Look | None] = dict.fromkeys(going)
    begun: list[Wanted] = []
    rows: pd.DataFrame | None = None
    for number, (before, size) in enumerate(pairwise(sizes), 1):
        begun.append(_round(whole, number, order[before:size], going))
        if begun[-1].missing(done):
            break
        if rows is None:
            rows = _asked_rows(read_rows(folder, "sweep"), whole.asked)
        so_far = rows[pd.MultiIndex.from_frame(rows[["dataset", "item"]]).isin(order[:size])]
        now = {delta: look_at_rows(so_far, delta, width, size, len(order), policies, measure) for delta in going}
        looks |= now
        going = [delta for delta, look in now.items() if not look.stop]
        if not going:
            break
    return Rounds(width, len(order), tuple(sizes[1 : len(begun) + 1]), tuple(begun), looks)


def in_order(items: Sequence[ItemKey], held: Collection[ItemKey]) -> list[ItemKey]:
    """The items in the order in which rounds take them: those of earlier rounds, then the others, each by digest."""
    return sorted(items, key=lambda key: (key not in held, hashlib.sha256("\n".join(key).encode()).digest()))


def _round(whole: Wanted, number: int, items: Collection[ItemKey], deltas: Collection[float]) -> Wanted:
    chosen = set(items)
    return replace(
        whole,
        items=tuple(key for key in whole.items if key in chosen),
        asked=frozenset(asked for asked in whole.asked if asked.condition.delta in deltas),
        round=number,
    )


def _asked_rows(rows: pd.DataFrame, asked: Collection[Asked]) -> pd.DataFrame:
    """The clean rows of the texts, and the rows of the conditions asked for: a folder may hold more of them."""
    names = ["policy_id", "positions", "arm", "delta", "seed"]
    conditions = {tuple(getattr(one.condition, name) for name in names) for one in asked}
    texts = rows[rows["task"] == "loss"]
    wanted = pd.MultiIndex.from_frame(texts[names]).isin(conditions)
    return texts[(texts["arm"] == "clean") | wanted]
