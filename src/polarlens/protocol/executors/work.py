"""A unit done, or what went wrong with it: the same in this process and in a worker."""

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any, Protocol

from polarlens.errors import PolarlensError
from polarlens.protocol.bench import Bench
from polarlens.protocol.experiments import EXPERIMENTS
from polarlens.protocol.plan import Unit
from polarlens.protocol.progress import Advance
from polarlens.rows.store import Rows


@dataclass(frozen=True)
class Outcome:
    """What came of a unit: its rows, or None and why it failed. tokens: what a worker has told of its passes."""

    rows: Rows | None
    error: str = ""
    tokens: float = 0.0
    peak_memory_bytes: int = 0


class Told(Protocol):
    """Told the real tokens that passes of a unit have carried."""

    def __call__(self, unit: Unit, tokens: float, note: str = "") -> None:
        """Add `tokens`."""


class Executor(Protocol):
    """Does units in any order. workers: plain data on the machines that did, empty where it is this process."""

    @property
    def workers(self) -> list[Mapping[str, Any]]:
        """One entry per worker that has been ready for work."""

    def __call__(self, units: Many[Unit], told: Told) -> Iterator[tuple[Unit, Outcome]]:
        """Every unit once, as it is done; one that fails does not stop the others."""


def attempt(bench: Bench, unit: Unit, advance: Advance) -> Outcome:
    """The unit's rows, or why it failed; what is not foreseen is raised."""
    try:
        return Outcome(EXPERIMENTS[unit.experiment].rows(bench, unit, advance))
    except (PolarlensError, RuntimeError, OSError) as error:
        return Outcome(None, str(error))
