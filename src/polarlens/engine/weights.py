"""Watching attention weights while a model runs: through the registry of attention functions, else as returned."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from polarlens.engine.activations import layers_by_module
from polarlens.errors import SiteError
from polarlens.models.attention import attention_by, eager, plain
from polarlens.models.chain import TOKENS
from polarlens.models.hooks import hooked
from polarlens.models.language_model import LanguageModel
from polarlens.models.sites import PATTERN, refuse
from polarlens.models.verify import TOLERANCE
from polarlens.perturbation import norms
from polarlens.perturbation.geometry import widened

Keep = Callable[[int, Tensor], None]


@contextmanager
def watching_weights(lm: LanguageModel, layers: Iterable[int], keep: Keep) -> Iterator[None]:
    """Call `keep(layer, weights (B, heads, T, T))` whenever a block of `layers` attends.

    Families that ignore the registry run with their eager attention, whose modules return the weights.

    Raises SiteError while the model runs where neither gives weights.
    """
    wanted = set(layers)
    if lm.anatomy.sites[PATTERN].available:
        layer_of = layers_by_module(lm.anatomy)

        def attend(
            module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **settings: Any
        ) -> tuple[Tensor, Tensor]:
            output, weights = plain(module, query, key, value, mask, **settings)
            if layer_of[module] in wanted:
                keep(layer_of[module], weights)
            return output, weights

        with attention_by(lm.hf, attend):
            yield
        return

    def returned(layer: int, _: nn.Module, __: Any, output: Any) -> None:
        weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if not isinstance(weights, Tensor) or not _is_causal_pattern(weights):
            raise refuse(PATTERN, "the attention modules return no weights either", lm.name)
        keep(layer, weights)

    def registrations() -> Iterator[Callable[[], Any]]:
        for layer in sorted(wanted):
            attention = lm.anatomy.blocks[layer].attention
            if attention is None:
                raise refuse(PATTERN, "no attention module could be told apart in this family's blocks", lm.name)
            yield partial(attention.register_forward_hook, partial(returned, layer))

    with eager(lm.hf), hooked(registrations()):
        yield


def weights_refused(lm: LanguageModel) -> str | None:
    """Why attention weights of this model cannot be had, or None where they can; runs a few tokens twice."""
    seen: list[int] = []
    ids = torch.arange(min(TOKENS, lm.window or TOKENS), device=lm.device)[None]

    def logits() -> Tensor:
        with torch.no_grad():
            return lm.hf(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits

    try:
        with watching_weights(lm, range(lm.n_layers), lambda layer, _: seen.append(layer)):
            watched = logits()
        require_same(lm, watched, logits())
    except SiteError as error:
        return error.what
    return None if seen == list(range(lm.n_layers)) else "not every block computes attention weights"


def require_same(lm: LanguageModel, watched: Tensor, usual: Tensor) -> None:
    """SiteError unless states (..., d) or logits of a pass with weights watched are those of a usual pass.

    At half of the tokens at least: in a mixture of experts a rounding error can send a token elsewhere. Falcon with
    ALiBi adds the bias twice in its eager attention (transformers 5), so its weights are not the model's.
    """
    error = float((norms(widened(watched) - widened(usual)) / norms(usual)).median())
    if not error <= 10 * TOLERANCE.get(lm.dtype, TOLERANCE[torch.float32]):
        reason = f"where this family returns weights its attention is another one (relative difference {error:.1e})"
        raise refuse(PATTERN, reason, lm.name)


def _is_causal_pattern(weights: Tensor) -> bool:
    """(B, heads, T, T), each row a distribution over the keys up to its own."""
    if weights.dim() != 4 or weights.shape[-1] != weights.shape[-2]:
        return False
    whole = (weights.sum(dim=-1) - 1).abs().max() < 1e-2
    return bool(whole and (weights >= 0).all() and not weights.triu(1).any())
