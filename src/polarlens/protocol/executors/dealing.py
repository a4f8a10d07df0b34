"""Which unit a worker gets next, and what becomes of the unit of a worker that is lost. No Ray here."""

from collections import Counter, deque
from collections.abc import Iterable

from polarlens.protocol.plan import Unit

AT_MOST = 3  # times that a unit is dealt


class Deal:
    """Units dealt one at a time, each at most AT_MOST times.

    Units on trees share trained probes, which every process trains for itself: they come first and go to one worker,
    so that the probes are trained once. Another worker takes over when that one is lost.
    """

    def __init__(self, units: Iterable[Unit]) -> None:
        every = list(units)
        self._probing = deque(unit for unit in every if unit.task == "trees")
        self._plain = deque(unit for unit in every if unit.task != "trees")
        self._home: int | None = None
        self._dealt: Counter[Unit] = Counter()

    @property
    def waiting(self) -> int:
        """Units that are with no worker."""
        return len(self._probing) + len(self._plain)

    def next(self, worker: int) -> Unit | None:
        """A unit for this worker, None where there is none for it now."""
        if self._probing and self._home in (None, worker):
            self._home, queue = worker, self._probing
        elif self._plain:
            queue = self._plain
        else:
            return None
        unit = queue.popleft()
        self._dealt[unit] += 1
        return unit

    def lost(self, worker: int, unit: Unit) -> bool:
        """The worker is gone, and the unit with it: whether it will be dealt again."""
        if self._home == worker:
            self._home = None
        again = self._dealt[unit] < AT_MOST
        if again:
            (self._probing if unit.task == "trees" else self._plain).appendleft(unit)
        return again

    def rest(self) -> list[Unit]:
        """The units that are with no worker, taken off the deal."""
        left = [*self._probing, *self._plain]
        self._probing.clear()
        self._plain.clear()
        return left
