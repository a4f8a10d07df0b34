"""Putting clean activations back into a pass over K copies of the batch they come from."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from polarlens.engine.activations import (
    HEADS,
    SCALES,
    VALUES,
    Activations,
    Place,
    layers_by_module,
    source_of,
    streams_of,
)
from polarlens.engine.suffix import forward_replaced, hidden_of
from polarlens.models.attention import AttentionFunction, attention_by, plain
from polarlens.models.hooks import first_input, hooked, with_first
from polarlens.models.language_model import LanguageModel
from polarlens.models.norms import statistic
from polarlens.models.sites import PATTERN


@contextmanager
def injecting(lm: LanguageModel, places: Iterable[Place], clean: Activations) -> Iterator[None]:
    """Hold the activations at `places` at their clean values in every pass while the context is open.

    A contribution is put back as what the module returned in the clean pass, plus how the stream that the module adds
    to it has changed since; so equal streams give equal bits. A module that adds no stream is not run at all.
    """
    anatomy, places = lm.anatomy, list(places)
    outside = [place for place in places if place.site not in HEADS]
    inside = [place for place in places if place.site in HEADS]
    streams = streams_of(anatomy, outside)

    def instead(place: Place, *args: Any, **kwargs: Any) -> Any:
        x, kept = first_input(args, kwargs), clean.outputs[place]
        assert x is not None
        return with_first(kept, _tiled(hidden_of(kept), like=x))

    def replace(place: Place, _: nn.Module, __: tuple[Any, ...], output: Any) -> Any:
        residual = streams[place.layer].residual(place.site)
        assert residual is not None
        raw = _tiled(hidden_of(clean.outputs[place]), like=hidden_of(output))
        raw = raw + (residual - _tiled(clean.residuals[place], like=residual)).reshape(raw.shape)
        return with_first(output, raw)

    def rescale(place: Place, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor:
        kept, x = clean.scales[place], first_input(args, kwargs)
        assert x is not None
        now = statistic(x, anatomy.norm_kind, kept.epsilon).reshape(-1)
        then = _tiled(kept.value, like=now)
        # out - bias = gain·(x - mean)/now: with the clean statistic it is now/then times as long.
        change = torch.where(then > 0, now / then - 1, 0.0).reshape(*output.shape[:-1], 1)
        return output + (output - kept.bias) * change.to(output.dtype)

    def registrations() -> Iterator[Callable[[], Any]]:
        for place in outside:
            source = source_of(anatomy, place)
            if place.site in SCALES:
                yield partial(source.register_forward_hook, partial(rescale, place), with_kwargs=True)
            elif place in clean.residuals:
                yield partial(source.register_forward_hook, partial(replace, place))
        for stream in streams.values():
            yield from stream.registrations()

    with ExitStack() as entered:
        for place in outside:
            if place in clean.outputs and place not in clean.residuals:
                entered.enter_context(forward_replaced(source_of(anatomy, place), partial(instead, place)))
        entered.enter_context(hooked(registrations()))
        if inside:
            entered.enter_context(attention_by(lm.hf, _attention(lm, inside, clean)))
        yield


def _attention(lm: LanguageModel, places: list[Place], clean: Activations) -> AttentionFunction:
    """Clean weights are those of clean queries and keys; the mask is that of the pass."""
    wanted, layer_of = set(places), layers_by_module(lm.anatomy)

    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **settings: Any
    ) -> Any:
        layer = layer_of[module]
        kept = clean.heads.get(layer)
        if kept is not None and Place(layer, PATTERN) in wanted:
            query, key = _tiled(kept.query, like=query), _tiled(kept.key, like=key)
        if kept is not None and Place(layer, VALUES) in wanted:
            value = _tiled(kept.value, like=value)
        return plain(module, query, key, value, mask, **settings)

    return attend


def _tiled(kept: Tensor, *, like: Tensor) -> Tensor:
    """`kept` repeated along the first axis to the shape of `like`; always a new tensor."""
    return kept.repeat(like.shape[0] // kept.shape[0], *[1] * (kept.dim() - 1))
