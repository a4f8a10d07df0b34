"""Workers of a Ray cluster: started where there is room, given units, replaced when they are lost."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any

from polarlens.errors import PolarlensError, UsageError
from polarlens.protocol.executors.cluster import places
from polarlens.protocol.executors.dealing import AT_MOST, Deal
from polarlens.protocol.executors.work import Outcome, Told
from polarlens.protocol.plan import Unit
from polarlens.protocol.progress import say

Make = Callable[[], tuple[dict[str, Any], Callable[[Unit], Outcome]]]

LOOK_EVERY = 10.0  # seconds between looks at the nodes
FAILED_STARTS = 3  # in a row, after which no more workers are started


class Actor:
    """A worker's process."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def set_up(self) -> dict[str, Any]:
        """Load the model; tells the machine."""
        machine, self._do = self._make()
        return machine

    def do(self, unit: Unit) -> Outcome:
        """Do a unit."""
        return self._do(unit)


@dataclass(frozen=True, eq=False)
class Worker:
    """An actor and the node it was started on."""

    number: int
    node: str
    actor: Any


class Pool:
    """The executor `ray`. make: what each worker calls once. Workers stay until `close`."""

    def __init__(self, make: Make, *, device: str, threads: int, weights: int, quiet: bool) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._ray, self._near = ray, NodeAffinitySchedulingStrategy
        self._make, self._actor = ray.put(make), ray.remote(Actor)
        self._room: dict[str, Any] = {"device": device, "threads": threads, "weights": weights}
        self._quiet = quiet
        self._started = self._failed_starts = 0
        self._looked = float("-inf")
        self._why = ""
        self._idle: list[Worker] = []
        self._starting: dict[Any, Worker] = {}
        self._busy: dict[Any, tuple[Worker, Unit]] = {}
        self._machines: dict[int, Mapping[str, Any]] = {}

    @property
    def workers(self) -> list[Mapping[str, Any]]:
        """The machine of every worker that has been ready."""
        return list(self._machines.values())

    def __call__(self, units: Many[Unit], told: Told) -> Iterator[tuple[Unit, Outcome]]:
        """Every unit once, as it is done; the unit of a lost worker is dealt again.

        Raises UsageError and ModelError when a worker cannot have the model, and when no node can hold a worker.
        """
        deal = Deal(units)
        done: list[tuple[Unit, Outcome]] = []
        while deal.waiting or self._busy:
            self._start(deal.waiting)
            self._hand_out(deal)
            for unit, outcome in done:
                told(unit, outcome.tokens)
                yield unit, outcome
            if not (self._busy or self._starting):
                why = f"no worker could be started: {self._why}"
                done = [(unit, Outcome(None, why)) for unit in deal.rest()]
            else:
                done = list(self._collect(deal))
        for unit, outcome in done:
            told(unit, outcome.tokens)
            yield unit, outcome

    def close(self) -> None:
        """End every worker."""
        for worker in self._everyone():
            self._ray.kill(worker.actor)
        self._idle, self._starting, self._busy = [], {}, {}

    def _everyone(self) -> list[Worker]:
        return [*self._idle, *self._starting.values(), *(worker for worker, _ in self._busy.values())]

    def _start(self, waiting: int) -> None:
        """Start workers where nodes have room, no more than there are units for."""
        wanted = waiting - len(self._idle) - len(self._starting)
        if wanted <= 0 or self._failed_starts >= FAILED_STARTS or time.monotonic() - self._looked < LOOK_EVERY:
            return
        self._looked = time.monotonic()
        found = places(self._ray.nodes(), **self._room)
        taken = Counter(worker.node for worker in self._everyone())
        if not found and not taken:
            what = "no node of the Ray cluster has a GPU" if self._room["device"] == "cuda" else "no node has a core"
            raise UsageError(what, where="--executor ray", fix="Start nodes that have, or choose another --device.")
        room = [node for node, (count, _) in found.items() for _ in range(count - taken[node])][:wanted]
        for node in room:
            self._starting |= self._started_on(node, found[node][1])
        if room and not taken:
            say(f"ray: {len(room)} workers with {self._room['threads']} threads each", quiet=self._quiet)

    def _started_on(self, node: str, cores: float) -> dict[Any, Worker]:
        gpus = 1 if self._room["device"] == "cuda" else 0
        near = self._near(node, soft=False)
        actor = self._actor.options(num_cpus=cores, num_gpus=gpus, scheduling_strategy=near).remote(self._make)
        self._started += 1
        return {actor.set_up.remote(): Worker(self._started, node, actor)}

    def _hand_out(self, deal: Deal) -> None:
        for worker in list(self._idle):
            unit = deal.next(worker.number)
            if unit is not None:
                self._idle.remove(worker)
                self._busy[worker.actor.do.remote(unit)] = worker, unit

    def _collect(self, deal: Deal) -> Iterator[tuple[Unit, Outcome]]:
        """Wait for something to happen; what is done or has failed for good."""
        ready, _ = self._ray.wait([*self._busy, *self._starting], timeout=LOOK_EVERY)
        for reference in ready:
            if reference in self._starting:
                self._settle(self._starting.pop(reference), reference)
                continue
            worker, unit = self._busy.pop(reference)
            outcome, why = self._result(reference)
            if outcome is not None:
                self._idle.append(worker)
                yield unit, outcome
                continue
            self._dismiss(worker)
            say(f"ray: worker {worker.number} was lost ({why})", quiet=self._quiet)
            if not deal.lost(worker.number, unit):
                yield unit, Outcome(None, f"{AT_MOST} workers were lost while they did this unit; the last one: {why}")

    def _settle(self, worker: Worker, reference: Any) -> None:
        machine, why = self._result(reference)
        if machine is not None:
            self._failed_starts = 0
            self._machines[worker.number] = machine
            self._idle.append(worker)
            return
        self._failed_starts += 1
        self._why = why
        self._dismiss(worker)
        say(f"ray: worker {worker.number} did not start ({why})", quiet=self._quiet)

    def _dismiss(self, worker: Worker) -> None:
        """Make sure that a lost worker is gone, and look at once for where another can be started."""
        self._ray.kill(worker.actor)
        self._looked = float("-inf")

    def _result(self, reference: Any) -> tuple[Any, str]:
        """What a worker answered; None and why where it was lost. Raises what it raised, a bug with its traceback."""
        try:
            return self._ray.get(reference), ""
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, PolarlensError):
                raise error.cause from None
            raise
        except self._ray.exceptions.RayError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            return None, lines[0].rstrip(".") if lines else type(error).__name__
