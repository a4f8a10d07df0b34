"""Units done one after the other in this process."""

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any

from polarlens.protocol.bench import Bench
from polarlens.protocol.executors.work import Outcome, Told, attempt
from polarlens.protocol.plan import Unit


@dataclass(frozen=True)
class Local:
    """This process and its bench."""

    bench: Bench

    @property
    def workers(self) -> list[Mapping[str, Any]]:
        """None besides this process."""
        return []

    def __call__(self, units: Many[Unit], told: Told) -> Iterator[tuple[Unit, Outcome]]:
        """The units in their order; progress is told within them."""
        for unit in units:

            def advance(amount: float, note: str = "", unit: Unit = unit) -> None:
                told(unit, amount, note)

            yield unit, attempt(self.bench, unit, advance)
