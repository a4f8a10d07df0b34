"""Clean activations of one batch, by place: what a repair puts back into a perturbed run."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn

from polarlens.engine.suffix import detached
from polarlens.models.anatomy import Anatomy, Block
from polarlens.models.attention import AttentionFunction, plain
from polarlens.models.hooks import first_input, first_tensor, hooked
from polarlens.models.norms import constants_of, statistic
from polarlens.models.sites import ATTENTION, FINAL_NORM, MLP, PATTERN, PRE_ATTENTION_NORM, PRE_MLP_NORM

VALUES = "attention values"
# What a norm divides by, of the norm whose output is the site.
SCALES = {f"scale of the {site}": site for site in (PRE_ATTENTION_NORM, PRE_MLP_NORM, FINAL_NORM)}
PRE_ATTENTION_SCALE, PRE_MLP_SCALE, FINAL_SCALE = SCALES
HEADS = (PATTERN, VALUES)  # inside the attention, reached through the registry of attention functions


class Place(NamedTuple):
    """A site in one block; layer None: the final norm's."""

    layer: int | None
    site: str


@dataclass(frozen=True)
class Scale:
    """The statistic of a norm's input, (n,) in the working dtype, with the norm's epsilon and bias."""

    value: Tensor
    epsilon: float
    bias: Tensor


@dataclass(frozen=True)
class Heads:
    """Query (B, heads, T, k), key and value (B, groups, T, k) as the attention function gets them."""

    query: Tensor
    key: Tensor
    value: Tensor


@dataclass
class Activations:
    """Clean activations of one batch of B rows, on the devices they were computed on.

    outputs: what the site's module returned: (B, T, d) or flattened, or a tuple that starts with it. residuals: what
    that holds besides the contribution, in families whose modules add the stream themselves. heads: by layer.
    """

    outputs: dict[Place, Any] = field(default_factory=dict)
    residuals: dict[Place, Tensor] = field(default_factory=dict)
    scales: dict[Place, Scale] = field(default_factory=dict)
    heads: dict[int, Heads] = field(default_factory=dict)


class Stream:
    """x and a of one block in the pass that runs, for families that add the stream inside a module."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._x: Tensor | None = None
        self._a: Tensor | None = None

    def registrations(self) -> Iterator[Callable[[], Any]]:
        """Hooks that follow the stream, to be registered after those that change it; none in most families."""
        block = self._block
        if block.attention_adds_residual or block.mlp_adds_residual:
            yield partial(block.module.register_forward_pre_hook, self._enter, with_kwargs=True)
        if block.mlp_adds_residual:
            yield partial(block.source(ATTENTION).register_forward_hook, self._attended)

    def residual(self, site: str) -> Tensor | None:
        """What the site's module adds to its contribution, (B, T, d); None where it adds nothing."""
        if site not in (ATTENTION, MLP) or self._x is None:
            return None
        return self._block.residual(site, self._x, self._a)

    def _enter(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._x = first_input(args, kwargs)

    def _attended(self, _: nn.Module, __: Any, output: Any) -> None:
        raw = first_tensor(output)
        assert raw is not None
        assert self._x is not None
        self._a = self._block.contribution(ATTENTION, raw, self._x)


def source_of(anatomy: Anatomy, place: Place) -> nn.Module:
    """The module whose output carries the site, or whose statistic it is."""
    site = SCALES.get(place.site, place.site)
    if place.layer is not None:
        return anatomy.blocks[place.layer].source(site)
    assert anatomy.final_norm is not None
    return anatomy.final_norm


def streams_of(anatomy: Anatomy, places: Iterable[Place]) -> dict[int | None, Stream]:
    """One stream per block that the places are in."""
    return {p.layer: Stream(anatomy.blocks[p.layer]) for p in places if p.layer is not None}


@contextmanager
def recording(anatomy: Anatomy, places: Iterable[Place], into: Activations) -> Iterator[None]:
    """Keep the activations at `places` (but the inside of the attention) of the next pass."""
    places = [place for place in places if place.site not in HEADS]
    streams = streams_of(anatomy, places)

    def keep(place: Place, norm: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if place.site in SCALES:
            into.scales[place] = _scale(anatomy.norm_kind, norm, first_input(args, kwargs))
            return
        into.outputs[place] = detached(output)
        residual = streams[place.layer].residual(place.site) if place.layer is not None else None
        if residual is not None:
            into.residuals[place] = residual.clone()

    def registrations() -> Iterator[Callable[[], Any]]:
        for place in places:
            source = source_of(anatomy, place)
            yield partial(source.register_forward_hook, partial(keep, place), with_kwargs=True)
        for stream in streams.values():
            yield from stream.registrations()

    with hooked(registrations()):
        yield


def recording_heads(anatomy: Anatomy, layers: Iterable[int], into: Activations) -> AttentionFunction:
    """An attention function that keeps query, key and value of `layers`."""
    wanted, layer_of = set(layers), layers_by_module(anatomy)

    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **settings: Any
    ) -> Any:
        if (layer := layer_of[module]) in wanted:
            into.heads[layer] = Heads(query.clone(), key.clone(), value.clone())
        return plain(module, query, key, value, mask, **settings)

    return attend


def layers_by_module(anatomy: Anatomy) -> dict[nn.Module, int]:
    """Every module inside a block -> the block's number."""
    return {part: block.index for block in anatomy.blocks for part in block.module.modules()}


def _scale(kind: str, norm: nn.Module, x: Tensor | None) -> Scale:
    assert x is not None
    epsilon, bias = constants_of(norm, x.shape[-1], x)
    return Scale(statistic(x, kind, epsilon).reshape(-1), epsilon, bias)
