"""What an experiment adds to the summary."""

from dataclasses import dataclass, field

from polarlens.statistics.claims_given import Given
from polarlens.statistics.intervals import Moments


@dataclass
class Entries:
    """cells, contrasts: as in `summary.json`. given: claim id -> the contrasts that decide it.

    recoveries: (repair, arm, delta) -> moments of the repaired and the unrepaired damage that the claims are about.
    """

    cells: list[dict[str, object]] = field(default_factory=list)
    contrasts: list[dict[str, object]] = field(default_factory=list)
    given: dict[str, list[Given]] = field(default_factory=dict)
    recoveries: dict[tuple[str, str, float], Moments] = field(default_factory=dict)
