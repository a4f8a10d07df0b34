"""The work plan: which conditions each item needs, what is done already, and units with a content key for the rest."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Many
from dataclasses import astuple, dataclass, fields, replace
from functools import cached_property
from typing import Any

from polarlens.engine.conditions import Condition
from polarlens.perturbation.policy import ARMS, Policy
from polarlens.protocol.config import Task

# Items of one unit: few, so that an interruption loses little, unless a task would then write more files than this.
BLOCK = 8
FILES_PER_TASK = 200

ItemKey = tuple[str, str]
"""(dataset, item): the same sentence may stand in two files."""


@dataclass(frozen=True)
class Asked:
    """One perturbed pass over an item: its condition, and what the experiment adds (the repair and its layers)."""

    condition: Condition
    more: tuple[str, ...] = ()

    @property
    def values(self) -> list[Any]:
        """Plain data: the condition's fields, then what the experiment adds."""
        return [*astuple(self.condition), *self.more]

    @classmethod
    def from_values(cls, values: Many[Any]) -> "Asked":
        """The inverse of `values`."""
        n = len(fields(Condition))
        return cls(Condition(*values[:n]), tuple(values[n:]))


@dataclass(frozen=True)
class Work:
    """What an item needs at one set of layers: the clean pass, the delta = 0 control, and perturbed passes."""

    clean: bool
    control: bool
    asked: frozenset[Asked]

    def __sub__(self, done: "Work") -> "Work":
        return Work(self.clean and not done.clean, self.control and not done.control, self.asked - done.asked)

    def __or__(self, other: "Work") -> "Work":
        return Work(self.clean or other.clean, self.control or other.control, self.asked | other.asked)

    def __bool__(self) -> bool:
        return self.clean or self.control or bool(self.asked)


NOTHING = Work(False, False, frozenset())


@dataclass(frozen=True)
class Unit:
    """Independent work whose rows are written in one file: the same conditions for a block of items."""

    experiment: str
    task: Task
    layers: tuple[int, ...]
    items: tuple[ItemKey, ...]
    work: Work

    @cached_property
    def document(self) -> dict[str, Any]:
        """The unit as plain data, in canonical order."""
        return {
            "experiment": self.experiment,
            "task": self.task,
            "layers": list(self.layers),
            "items": [list(key) for key in self.items],
            "clean": self.work.clean,
            "control": self.work.control,
            "conditions": sorted((one.values for one in self.work.asked), key=json.dumps),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Unit":
        """The inverse of `document`."""
        asked = frozenset(map(Asked.from_values, document["conditions"]))
        return cls(
            document["experiment"],
            document["task"],
            tuple(document["layers"]),
            tuple((dataset, item) for dataset, item in document["items"]),
            Work(document["clean"], document["control"], asked),
        )

    @property
    def passes(self) -> int:
        """Passes over the items: the clean one, the control, and every one asked for."""
        return 1 + self.work.control + len(self.work.asked)

    @property
    def in_order(self) -> list[Asked]:
        """The passes asked for, in a fixed order."""
        return sorted(self.work.asked, key=lambda asked: json.dumps(asked.values))

    def key(self, settings: Mapping[str, Any]) -> str:
        """Content key: the unit and every setting that changes its numbers."""
        text = json.dumps([settings, self.document], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


def full_cross(
    policies: Mapping[str, Policy], positions: Iterable[str], deltas: Iterable[float], seeds: Iterable[int]
) -> frozenset[Asked]:
    """The full cross of a sweep: policies × positions × arms × deltas × seeds × antithetic members."""
    positions, deltas, seeds = tuple(positions), tuple(deltas), tuple(seeds)
    return frozenset(
        Asked(Condition(policy_id, where, arm, float(delta), seed, sign))
        for policy_id, policy in policies.items()
        for where in positions
        for arm in ARMS
        for delta in deltas
        for seed in seeds
        for sign in policy.draw_signs(arm)
    )


Done = Mapping[tuple[str, str, tuple[int, ...], ItemKey], Work]


def done_work(documents: Iterable[Mapping[str, Any]]) -> Done:
    """What the parts on disk already hold, per (experiment, task, layers, item)."""
    done: dict[tuple[str, str, tuple[int, ...], ItemKey], Work] = defaultdict(lambda: NOTHING)
    for document in documents:
        unit = Unit.from_document(document)
        for item in unit.items:
            done[unit.experiment, unit.task, unit.layers, item] |= unit.work
    return done


def missing_units(
    experiment: str,
    task: Task,
    layers: tuple[int, ...],
    items: Many[ItemKey],
    wanted: Work,
    done: Done,
    block: int = BLOCK,
) -> list[Unit]:
    """Units for what is not done yet: items with the same missing work share units, in the order given."""
    groups: dict[Work, list[ItemKey]] = defaultdict(list)
    for key in items:
        missing = wanted - done.get((experiment, task, layers, key), NOTHING)
        if missing:
            groups[missing].append(key)
    return [
        Unit(experiment, task, layers, tuple(keys[start : start + block]), work)
        for work, keys in groups.items()
        for start in range(0, len(keys), block)
    ]


@dataclass(frozen=True)
class Wanted:
    """All that a run asked of one task in one experiment: every pass on every item, at each set of layers.

    items: longest first, so that the items of a unit are of similar length. control: whether delta = 0 is run. clean:
    whether the first set of layers leaves clean rows. part: tells it from others of the same experiment and task.
    whole: all items are one unit, and their numbers depend on one another: neither more nor fewer can be asked for.
    round: which one, where the items come in rounds.
    """

    experiment: str
    task: Task
    layers: tuple[tuple[int, ...], ...]
    items: tuple[ItemKey, ...]
    asked: frozenset[Asked]
    control: bool = True
    clean: bool = True
    part: str = ""
    whole: bool = False
    round: int | None = None

    @property
    def about(self) -> str:
        """What all of its rounds have in common."""
        return "/".join(filter(None, (self.experiment, self.task, self.part)))

    @property
    def key(self) -> str:
        """What it is called in the manifest."""
        return self.about if self.round is None else f"{self.about}/round {self.round}"

    def missing(self, done: Done, sets: int = 0) -> list[Unit]:
        """Units for what is not done yet. sets: of layers in all of the task, where this is not all of it."""
        share = -(-len(self.items) * max(sets, len(self.layers)) // FILES_PER_TASK)
        block = len(self.items) if self.whole else max(BLOCK, share)
        return [
            unit
            for n, layers in enumerate(self.layers)
            for unit in missing_units(
                self.experiment,
                self.task,
                layers,
                self.items,
                Work(self.clean and n == 0, self.control, self.asked),
                done,
                block,
            )
        ]

    def with_earlier(self, earlier: "Wanted | None") -> "Wanted":
        """All that this call and an earlier one asked of the same task: the larger set of items, every pass."""
        if earlier is None:
            return self
        items = max(earlier.items, self.items, key=len)
        return replace(self, items=items, asked=self.asked | earlier.asked, clean=self.clean or earlier.clean)

    @property
    def document(self) -> dict[str, Any]:
        """Plain data, for the manifest."""
        return {
            "experiment": self.experiment,
            "task": self.task,
            "layers": [list(group) for group in self.layers],
            "items": [list(key) for key in self.items],
            "conditions": sorted((one.values for one in self.asked), key=json.dumps),
            "control": self.control,
            "clean": self.clean,
            "part": self.part,
            "whole": self.whole,
            "round": self.round,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Wanted":
        """The inverse of `document`."""
        return cls(
            document["experiment"],
            document["task"],
            tuple(map(tuple, document["layers"])),
            tuple((dataset, item) for dataset, item in document["items"]),
            frozenset(map(Asked.from_values, document["conditions"])),
            document["control"],
            document["clean"],
            document["part"],
            document.get("whole", False),
            document.get("round"),
        )
