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
    item's median, `top_token_energy` the share of summed squared norms held by the single longest state,
    `participation_ratio` that of all tokens and `participation_ratio_no_sinks` without the sinks: a single sink can
    hold nearly all of the variance, and the first then says 1 whatever the other states are like.
    """
    n = lm.n_layers
    kept: list[list[torch.Tensor]] = [[] for _ in range(n)]
    is_sink: list[list[np.ndarray]] = [[] for _ in range(n)]
    for batch in batches(first_tokens(items, has_bos=has_bos), max(1, batch_tokens), has_bos=has_bos):
        real = real_tokens(batch)

        def see(layer: int, states: torch.Tensor, real: torch.Tensor = real) -> None:
            for row, counted in zip(states.cpu(), real, strict=True):
                chosen = row[counted]
                norms = torch.linalg.vector_norm(chosen.double(), dim=-1).numpy()
                kept[layer].append(chosen)
                is_sink[layer].append(norms > SINK_RATIO * np.median(norms))

        see_states(lm, batch, range(n), see)
    return [_record(layer, torch.cat(kept[layer]).double(), np.concatenate(is_sink[layer])) for layer in range(n)]


def participation_ratio(states: torch.Tensor) -> float | None:
    """How many directions share the variance: (sum of lambda)² / sum of lambda², lambda the covariance's eigenvalues.

    states: (N, d), one row per token; float64 throughout. Between 1 (all along one line) and the smaller of d and
    N - 1; N isotropic tokens give about d / (1 + d / N). None where the states do not vary.
    """
    centred = states.double() - states.double().mean(0)
    # trace and Frobenius norm are those of the covariance, up to a factor that cancels, on either side
    gram = centred.T @ centred if centred.shape[1] <= centred.shape[0] else centred @ centred.T
    squared = float(gram.square().sum())
    return float(gram.trace()) ** 2 / squared if squared > 0 else None


def first_tokens(items: Many[Encoded], *, has_bos: bool) -> list[Encoded]:
    """The items that hold the first 2,048 real tokens in key order, an added BOS left out."""
    chosen, tokens = [], 0
    for encoded in sorted(items, key=lambda e: (e.item.item, e.item.dataset)):
        if tokens >= TOKENS:
            break
        chosen.append(encoded)
        tokens += sum(len(ids) - has_bos for ids in encoded.sequences)
    return chosen


def _record(layer: int, states: torch.Tensor, is_sink: np.ndarray) -> dict[str, Any]:
    norms = torch.linalg.vector_norm(states, dim=-1).numpy()
    squared, energy = norms**2, states.square().sum(0)
    return {
        "block": layer,
        "tokens": len(norms),
        "norm_median": float(np.median(norms)),
        "norm_mean": float(norms.mean()),
        "norm_max": float(norms.max()),
        "sink_share": float(is_sink.mean()),
        "top_token_energy": float(squared.max() / squared.sum()),
        "top5_channel_energy": float(energy.topk(min(TOP_CHANNELS, len(energy))).values.sum() / energy.sum()),
        "participation_ratio": participation_ratio(states),
        "participation_ratio_no_sinks": participation_ratio(states[torch.from_numpy(~is_sink)]),
    }
