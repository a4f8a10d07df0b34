"""Where a perturbed pass stood after a block, so that another pass over the same stack can go on from there.

A repair above the injection changes nothing below its own lowest layer: what comes before is the pass without repair.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from torch import nn

from polarlens.engine.outcome import Realised
from polarlens.engine.stack import Stack
from polarlens.engine.suffix import detached, hidden_of
from polarlens.models.hooks import hooked, with_first


@dataclass(frozen=True)
class Checkpoint:
    """The output of block `layer`, displaced, (K·B, T, d) or a tuple that starts with it, and what was measured."""

    layer: int
    output: Any
    realised: list[Realised]

    def resume(self, stack: Stack) -> Any:
        """A fresh copy of the output; `stack` goes on with what was measured up to here."""
        stack.realised = deepcopy(self.realised)
        return with_first(self.output, hidden_of(self.output).clone())


@contextmanager
def checkpoints(
    blocks: nn.ModuleList, layers: Iterable[int], stack: Stack, into: dict[int, Checkpoint]
) -> Iterator[None]:
    """Keep a checkpoint after each of `layers` of the next pass over `stack`; to be entered after its edits."""

    def register(layer: int) -> Callable[[], Any]:
        def keep(_: nn.Module, __: Any, output: Any) -> None:
            into[layer] = Checkpoint(layer, detached(output), deepcopy(stack.realised))

        return lambda: blocks[layer].register_forward_hook(keep)

    with hooked(map(register, layers)):
        yield
