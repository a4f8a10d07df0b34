"""Clean states from which the planes `covariance` and `data` draw: the first 2,048 real tokens of the text set."""

from collections import defaultdict
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from polarlens.engine.batching import batches
from polarlens.engine.conditions import SINK_RATIO
from polarlens.engine.states import real_tokens, see_states
from polarlens.perturbation import norms
from polarlens.perturbation.planes import Reference, reference
from polarlens.protocol.profile import TOKENS, first_tokens
from polarlens.protocol.tasks import TaskData

if TYPE_CHECKING:
    from polarlens.models import LanguageModel


def references(lm: "LanguageModel", task: TaskData, layers: set[int], batch_tokens: int) -> dict[int, Reference]:
    """Layer -> its reference, from the items in the order of their keys; a sink's norm is above 10 item medians.

    Raises UsageError when the items hold too few tokens.
    """
    states: dict[int, list[tuple[str, Tensor, Tensor]]] = defaultdict(list)
    chosen = first_tokens(task.encoding.items, has_bos=task.has_bos)
    for batch in batches(chosen, max(1, batch_tokens), has_bos=task.has_bos):
        real, names = real_tokens(batch), [f"{sequence.item} {sequence.member}" for sequence in batch.sequences]

        def see(layer: int, hidden: Tensor, real: Tensor = real, names: list[str] = names) -> None:
            for name, row, counted in zip(names, hidden.cpu(), real, strict=True):
                own = row[counted].clone()
                length = norms(own)
                states[layer].append((name, own, length > SINK_RATIO * length.quantile(0.5)))

        see_states(lm, batch, sorted(layers), see)
    found = {}
    for layer, rows in states.items():
        rows.sort(key=lambda row: row[0])
        bank, sinks = (torch.cat([row[k] for row in rows])[:TOKENS] for k in (1, 2))  # type: ignore[misc]
        found[layer] = reference(bank.to(lm.device), sinks)
    return found
