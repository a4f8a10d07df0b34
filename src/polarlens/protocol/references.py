"""Clean states from which the planes `covariance` and `data` draw: the first 2,048 real tokens of the text set."""

from collections import defaultdict
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from polarlens.engine.batching import make_batch
from polarlens.engine.conditions import SINK_RATIO
from polarlens.engine.states import real_tokens, see_states
from polarlens.perturbation import norms
from polarlens.perturbation.planes import Reference, reference
from polarlens.protocol.profile import TOKENS, first_tokens
from polarlens.protocol.tasks import TaskData

if TYPE_CHECKING:
    from polarlens.models import LanguageModel


def references(lm: "LanguageModel", task: TaskData, layers: set[int]) -> dict[int, Reference]:
    """Layer -> its reference, from the items in the order of their keys; a sink's norm is above 10 item medians.

    One item per pass, so that no bit depends on the budget of a batch.
    """
    states: dict[int, list[tuple[Tensor, Tensor]]] = defaultdict(list)
    for encoded in first_tokens(task.encoding.items, has_bos=task.has_bos):
        batch = make_batch([encoded], has_bos=task.has_bos)
        real = real_tokens(batch)

        def see(layer: int, hidden: Tensor, real: Tensor = real) -> None:
            for row, counted in zip(hidden.cpu(), real, strict=True):
                own = row[counted].clone()
                length = norms(own)
                states[layer].append((own, length > SINK_RATIO * length.quantile(0.5)))

        see_states(lm, batch, sorted(layers), see)
    found = {}
    for layer, rows in states.items():
        bank, sinks = (torch.cat([row[k] for row in rows])[:TOKENS] for k in (0, 1))
        found[layer] = reference(bank.to(lm.device), sinks)
    return found
