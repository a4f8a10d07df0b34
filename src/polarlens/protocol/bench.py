"""What every experiment works with: the model, the items of each task, engines, and the columns all rows share."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from polarlens.engine.batching import Batch, batches
from polarlens.engine.conditions import Protocol
from polarlens.engine.engine import Engine
from polarlens.perturbation.planes import Reference
from polarlens.perturbation.policy import Policy
from polarlens.probing import Probed, probe
from polarlens.protocol.config import RunConfig, Task
from polarlens.protocol.layers import format_layers
from polarlens.protocol.plan import Unit
from polarlens.protocol.prepared import Prepared
from polarlens.protocol.tasks import TaskData

# The clean pass sees an eighth of the budget, so that conditions can be stacked eight deep on it.
STACK = 8


@dataclass(frozen=True)
class Bench:
    """A prepared run at work. medians: task -> layer -> median clean norm, only in the delta mode `site`."""

    prepared: Prepared
    medians: Mapping[str, Mapping[int, float]]

    @property
    def config(self) -> RunConfig:
        """The resolved configuration."""
        return self.prepared.config

    @cached_property
    def tasks(self) -> dict[Task, TaskData]:
        """The tasks that have data."""
        return {task.task: task for task in self.prepared.data}

    @cached_property
    def probed(self) -> Probed:
        """The probes of the run's treebank, trained once."""
        trees = self.tasks["trees"]
        assert trees.aligned is not None
        return probe(self.prepared.lm, trees.aligned, has_bos=trees.has_bos, batch_tokens=self.batch_tokens)

    @property
    def batch_tokens(self) -> int:
        """Padded tokens of one forward pass."""
        return self.prepared.batch_tokens

    @property
    def allow_mismatch(self) -> bool:
        """Whether a realised distance may be off."""
        return bool(self.config.allow_mismatch)

    def engine(
        self, unit: Unit, policies: Mapping[str, Policy], references: Mapping[int, Reference] | None = None
    ) -> Engine:
        """An engine that perturbs the unit's layers."""
        assert self.config.delta_mode is not None
        medians = self.medians.get(unit.task, {})
        protocol = Protocol(unit.layers, self.config.delta_mode, policies, medians, references or {})
        return Engine(self.prepared.lm, protocol, kl=unit.task == "loss")

    def batches(self, unit: Unit) -> Iterator[Batch]:
        """The unit's items in batches that leave room for stacked conditions."""
        task = self.tasks[unit.task]
        items = [task.by_key[key] for key in unit.items]
        return batches(items, max(1, self.batch_tokens // STACK), has_bos=task.has_bos)

    def base(self, unit: Unit) -> dict[str, Any]:
        """The columns that all rows of a unit share."""
        return {
            "model": self.prepared.lm.name,
            "experiment": unit.experiment,
            "task": unit.task,
            "delta_mode": self.config.delta_mode,
            "layers": format_layers(unit.layers),
        }
