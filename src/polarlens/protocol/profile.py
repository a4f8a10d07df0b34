"""The clean states of a model, block by block: how long they are, how unequal their channels, how many sinks."""

from collections.abc import Sequence as Many
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from polarlens.engine.batching import batches
from polarlens.engine.conditions import SINK_RATIO
from polarlens.engine.encoding import Encoded
from polarlens.engine.states import real_tokens, see_states

if TYPE_CHECKING:
    from polarlens.models import LanguageModel

TOKENS = 2048
TOP_CHANNELS = 5


def state_profile(
    lm: "LanguageModel", items: Many[Encoded], *, has_bos: bool, batch_tokens: int
) -> list[dict[str, Any]]:
    """One record per block over the first 2,048 real tokens of the items in key order, an added BOS left out.

    Norms are Euclidean norms of the raw block output. `top5_channel_energy` is the share of the summed squared
    states held by the five strongest channels, `sink_share` the share of tokens with a norm above 10 times their
    item's median, `top_token_energy` the share of summed squared norms held by the single longest state.
    """
    n = lm.n_layers
    norms: list[list[np.ndarray]] = [[] for _ in range(n)]
    is_sink: list[list[np.ndarray]] = [[] for _ in range(n)]
    energy = torch.zeros(n, lm.width, dtype=torch.float64)
    for batch in batches(first_tokens(items, has_bos=has_bos), max(1, batch_tokens), has_bos=has_bos):
        real = real_tokens(batch)

        def see(layer: int, states: torch.Tensor, real: torch.Tensor = real) -> None:
            hidden = states.cpu().double()
            length = torch.linalg.vector_norm(hidden, dim=-1)
            for row, counted in zip(length, real, strict=True):
                values = row[counted].numpy()
                norms[layer].append(values)
                is_sink[layer].append(values > SINK_RATIO * np.median(values))
            energy[layer] += hidden[real].square().sum(0)

        see_states(lm, batch, range(n), see)
    return [
        _record(layer, np.concatenate(norms[layer]), np.concatenate(is_sink[layer]), energy[layer])
        for layer in range(n)
    ]


def first_tokens(items: Many[Encoded], *, has_bos: bool) -> list[Encoded]:
    """The items that hold the first 2,048 real tokens in key order, an added BOS left out."""
    chosen, tokens = [], 0
    for encoded in sorted(items, key=lambda e: (e.item.item, e.item.dataset)):
        if tokens >= TOKENS:
            break
        chosen.append(encoded)
        tokens += sum(len(ids) - has_bos for ids in encoded.sequences)
    return chosen


def _record(layer: int, norms: np.ndarray, is_sink: np.ndarray, energy: torch.Tensor) -> dict[str, Any]:
    squared = norms**2
    return {
        "block": layer,
        "tokens": len(norms),
        "norm_median": float(np.median(norms)),
        "norm_mean": float(norms.mean()),
        "norm_max": float(norms.max()),
        "sink_share": float(is_sink.mean()),
        "top_token_energy": float(squared.max() / squared.sum()),
        "top5_channel_energy": float(energy.topk(min(TOP_CHANNELS, len(energy))).values.sum() / energy.sum()),
    }
