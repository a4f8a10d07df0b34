"""Median clean norms for the delta mode `site`: one per layer and task, over all items of the run."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from polarlens.engine.batching import batches
from polarlens.engine.encoding import Encoded
from polarlens.engine.states import real_tokens, see_states
from polarlens.perturbation import norms

if TYPE_CHECKING:
    from polarlens.models import LanguageModel


def site_medians(
    lm: "LanguageModel", items: Sequence[Encoded], layers: Collection[int], *, has_bos: bool, batch_tokens: int
) -> dict[int, float]:
    """Layer -> median norm of the clean block output over all real tokens of the items, an added BOS left out."""
    found: dict[int, list[np.ndarray]] = defaultdict(list)
    for batch in batches(items, batch_tokens, has_bos=has_bos):
        real = real_tokens(batch)

        def see(layer: int, states: Tensor, real: Tensor = real) -> None:
            found[layer].append(norms(states).cpu()[real].double().numpy())

        see_states(lm, batch, sorted(layers), see)
    return {layer: float(np.median(np.concatenate(values))) for layer, values in found.items()}
