"""What an experiment adds to the summary."""

from dataclasses import dataclass, field

from polarlens.statistics.claims_given import Given


@dataclass
class Entries:
    """cells, contrasts: as in `summary.json`. given: claim id -> the contrasts that decide it."""

    cells: list[dict[str, object]] = field(default_factory=list)
    contrasts: list[dict[str, object]] = field(default_factory=list)
    given: dict[str, list[Given]] = field(default_factory=dict)
