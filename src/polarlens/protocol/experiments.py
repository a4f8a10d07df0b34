"""The experiments of this version: what each asks of the items, and how a unit of it becomes rows."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polarlens.protocol import sweep
from polarlens.protocol.bench import Bench
from polarlens.protocol.plan import Done, Unit, Wanted, done_work
from polarlens.protocol.prepared import Prepared
from polarlens.protocol.progress import Advance
from polarlens.rows.store import scan


@dataclass(frozen=True)
class Experiment:
    """wanted: all it asks, task by task. rows: one unit's rows; tells how many real tokens each pass has carried."""

    wanted: Callable[[Prepared], list[Wanted]]
    rows: Callable[[Bench, Unit, Advance], list[dict[str, Any]]]


EXPERIMENTS: Mapping[str, Experiment] = {"sweep": Experiment(sweep.wanted, sweep.rows)}


def all_wanted(prepared: Prepared) -> list[Wanted]:
    """What the configuration asks of every experiment that this version has."""
    asked = prepared.config.experiments or ()
    return [wanted for name, one in EXPERIMENTS.items() if name in asked for wanted in one.wanted(prepared)]


def done_in(folder: Path) -> Done:
    """The work whose rows the folder holds."""
    return done_work(part.unit for name in EXPERIMENTS for part in scan(folder, name)[0])


def missing_units(wanted: Iterable[Wanted], done: Done) -> list[Unit]:
    """Units for all that is wanted and not done."""
    return [unit for one in wanted for unit in one.missing(done)]
