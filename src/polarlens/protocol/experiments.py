"""The experiments of this version: what each asks of the items, and how a unit of it becomes rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from polarlens.protocol import audit, curvature, probing, propagation, repair, sweep
from polarlens.protocol.bench import Bench
from polarlens.protocol.plan import Done, Unit, Wanted, done_work
from polarlens.protocol.prepared import Prepared
from polarlens.protocol.progress import Advance
from polarlens.rows.store import Rows, scan


@dataclass(frozen=True)
class Experiment:
    """One experiment.

    wanted: all it asks, task by task. skipped: what of it this model or this data do not allow, and why. rows: one
    unit's rows; tells how many real tokens each pass has carried.
    """

    wanted: Callable[[Prepared], list[Wanted]]
    skipped: Callable[[Prepared], list[dict[str, str]]]
    rows: Callable[[Bench, Unit, Advance], Rows]


EXPERIMENTS: Mapping[str, Experiment] = {
    "sweep": Experiment(sweep.wanted, lambda _: [], sweep.rows),
    "repair": Experiment(repair.wanted, repair.skipped, repair.rows),
    "audit": Experiment(audit.wanted, audit.skipped, audit.rows),
    "curvature": Experiment(curvature.wanted, curvature.skipped, curvature.rows),
    "propagation": Experiment(propagation.wanted, propagation.skipped, propagation.rows),
    "probing": Experiment(probing.wanted, probing.skipped, probing.rows),
}


def all_wanted(prepared: Prepared) -> list[Wanted]:
    """What the configuration asks of every experiment that this version has."""
    return [wanted for one in _asked(prepared) for wanted in one.wanted(prepared)]


def all_skipped(prepared: Prepared) -> list[dict[str, str]]:
    """What the configuration asks for and cannot have."""
    return [entry for one in _asked(prepared) for entry in one.skipped(prepared)]


def _asked(prepared: Prepared) -> list[Experiment]:
    return [one for name, one in EXPERIMENTS.items() if name in (prepared.config.experiments or ())]


def done_in(folder: Path) -> Done:
    """The work whose rows the folder holds."""
    return done_work(part.unit for name in EXPERIMENTS for part in scan(folder, name)[0])


def missing_units(wanted: Iterable[Wanted], done: Done) -> list[Unit]:
    """Units for all that is wanted and not done."""
    every = list(wanted)
    sets = Counter((one.experiment, one.task) for one in every for _ in one.layers)
    return [unit for one in every for unit in one.missing(done, sets[one.experiment, one.task])]
