"""Median clean norms for the delta mode `site`: one per layer and task, over all items of the run."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from polarlens.engine.batching import batches
from polarlens.engine.encoding import Encoded
from polarlens.engine.scoring import only_positions
from polarlens.engine.suffix import captured, hidden_of
from polarlens.perturbation import norms

if TYPE_CHECKING:
    from polarlens.models import LanguageModel


def site_medians(
    lm: "LanguageModel", items: Sequence[Encoded], layers: Iterable[int], *, has_bos: bool, batch_tokens: int
) -> dict[int, float]:
    """Layer -> median norm of the clean block output over all real tokens of the items, an added BOS left out."""
    layers = sorted(layers)
    found: dict[int, list[np.ndarray]] = {layer: [] for layer in layers}
    for batch in batches(items, batch_tokens, has_bos=has_bos):
        counted = batch.mask.bool()
        if has_bos:
            counted[:, 0] = False

        def keep(layer: int, output: Any, counted: torch.Tensor = counted) -> None:
            found[layer].append(norms(hidden_of(output)).cpu().double()[counted].numpy())

        unscored = only_positions(lm.head, torch.zeros(1, dtype=torch.int64, device=lm.device))
        with captured(lm.blocks, layers, keep), unscored, torch.no_grad():
            lm.hf(input_ids=batch.ids.to(lm.device), attention_mask=batch.mask.to(lm.device), use_cache=False)
    return {layer: float(np.median(np.concatenate(values))) for layer, values in found.items()}
