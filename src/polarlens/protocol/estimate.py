"""What a run will cost, before it starts."""

import time
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from polarlens.engine.batching import batches
from polarlens.engine.encoding import Encoded
from polarlens.protocol.config import Task
from polarlens.protocol.plan import ItemKey, Unit

if TYPE_CHECKING:
    from polarlens.models import LanguageModel


PROBES = 5.0


@dataclass(frozen=True)
class Estimate:
    """The plan of a run.

    units: units of work to do. items: items they touch. conditions: different conditions among them.
    forward_tokens: real tokens that pass through the model, each counted once per pass, whole or from a block on.
    seconds: estimate from one timed pass of this model on this machine.
    """

    units: int
    items: int
    conditions: int
    forward_tokens: int
    seconds: float

    def __str__(self) -> str:
        if not self.units:
            return "plan: nothing left to do, all rows are there"
        minutes, seconds = divmod(round(self.seconds), 60)
        return (
            f"plan: {self.conditions} conditions, {self.items} items, {self.units} units, "
            f"{self.forward_tokens:,} forward tokens, about {f'{minutes} min ' if minutes else ''}{seconds} s"
        )


def work_tokens(unit: Unit, items: Mapping[ItemKey, Encoded]) -> int:
    """Real tokens that the unit's passes carry: the clean pass, the control, and every condition."""
    return unit.passes * sum(len(ids) for key in unit.items for ids in items[key].sequences)


def passes(unit: Unit, n_layers: int) -> float:
    """What the unit costs, in whole forward passes over its items.

    The factors were measured on a model of 30 blocks with sequences of 34 tokens: a perturbed pass costs 1.25 times its
    share of the blocks (draws and scoring with it), one whose states and attention weights are watched instead of
    scored as much as its share; a probe of the curvature, two Hessian-vector products, 5.4 times, and the graph that
    they go through 2.3 times. Training the probes of a treebank costs PROBES passes over it.
    """

    def share(layer: int) -> float:
        return (n_layers - layer) / (n_layers + 1)  # the output embedding counted as one more block

    if not unit.layers:
        return 1 + PROBES
    asked, first = len(unit.work.asked), share(unit.layers[0])
    if unit.experiment == "curvature":
        return 1 + sum(map(share, unit.layers)) * (2.3 + 5.4 * asked)
    if unit.experiment == "propagation":
        return 1 + first * (1.2 + asked)
    return 1 + unit.work.control * first + 1.25 * asked * first


def estimate(
    units: Many[Unit], items: Mapping[Task, Mapping[ItemKey, Encoded]], lm: "LanguageModel", *, batch_tokens: int
) -> Estimate:
    """Count the work and time one clean pass of a batch of the run's own items."""
    if not units:
        return Estimate(0, 0, 0, 0, 0.0)
    per_token = _seconds_per_token(next(iter(items.values())).values(), lm, batch_tokens)
    seconds = 0.0
    for unit in units:
        tokens = sum(len(ids) for key in unit.items for ids in items[unit.task][key].sequences)
        seconds += per_token * tokens * passes(unit, lm.n_layers)
    return Estimate(
        units=len(units),
        items=len({(unit.task, key) for unit in units for key in unit.items}),
        conditions=len({(unit.experiment, unit.task, unit.layers, one) for unit in units for one in unit.work.asked}),
        forward_tokens=sum(work_tokens(unit, items[unit.task]) for unit in units),
        seconds=seconds,
    )


def _seconds_per_token(items: Iterable[Encoded], lm: "LanguageModel", batch_tokens: int) -> float:
    batch = next(batches(list(items), batch_tokens, has_bos=False))
    ids, mask = batch.ids.to(lm.device), batch.mask.to(lm.device)
    elapsed = float("inf")
    with torch.no_grad():
        for _ in range(2):  # the first pass also warms up
            start = time.perf_counter()
            lm.hf(input_ids=ids, attention_mask=mask, use_cache=False)
            elapsed = min(elapsed, time.perf_counter() - start)
    return elapsed / int(mask.sum())
