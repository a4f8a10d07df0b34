"""Clean states of some blocks for a batch, without scoring anything."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from polarlens.engine.batching import Batch
from polarlens.engine.scoring import only_positions
from polarlens.engine.suffix import captured, hidden_of

if TYPE_CHECKING:
    from polarlens.models import LanguageModel


def see_states(lm: "LanguageModel", batch: Batch, layers: Sequence[int], see: Callable[[int, Tensor], None]) -> None:
    """One clean pass; `see` is given every layer and its raw output (B, T, d), which it must not keep as it is."""

    def keep(layer: int, output: Any) -> None:
        see(layer, hidden_of(output).detach())

    unscored = only_positions(lm.head, torch.zeros(1, dtype=torch.int64, device=lm.device))
    with captured(lm.blocks, layers, keep), unscored, torch.no_grad():
        lm.hf(input_ids=batch.ids.to(lm.device), attention_mask=batch.mask.to(lm.device), use_cache=False)


def real_tokens(batch: Batch) -> Tensor:
    """(B, T) bool: the tokens of the items themselves, neither padding nor an added BOS."""
    counted = batch.mask.bool().clone()
    if batch.has_bos:
        counted[:, 0] = False
    return counted
