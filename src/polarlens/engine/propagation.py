"""Propagation: one perturbation at one layer, and how far every later state, pattern and norm is from the clean run.

All numbers are means over a sequence's real tokens, perturbed or not, but for an added BOS; ratios are taken of means.
Blocks are compared by their raw outputs, the last one before the final norm. Source of the measures: arXiv 2602.11169.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Many
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from polarlens.engine.batching import Batch
from polarlens.engine.conditions import Condition
from polarlens.engine.divergence import entropy, gap, jensen_shannon
from polarlens.engine.engine import Engine
from polarlens.engine.outcome import Realised
from polarlens.engine.suffix import captured, hidden_of
from polarlens.engine.weights import require_same, watching_weights
from polarlens.errors import UsageError
from polarlens.models.anatomy import Anatomy
from polarlens.models.hooks import first_input, hooked
from polarlens.models.language_model import LanguageModel
from polarlens.models.norms import statistic
from polarlens.perturbation import norms

NORMS = ("pre_attention_norm", "post_attention_norm", "pre_mlp_norm", "post_mlp_norm")
FINAL = "final_norm"


@dataclass(frozen=True)
class AtBlock:
    """One block under one condition, arrays per row (B,).

    distance, radial, angular, cosine: as in `divergence.Gap`; relative: mean distance / mean clean norm.
    attention_entropy: change of the entropy of the block's attention weights, attention_js: their Jensen-Shannon
        divergence to the clean ones, both in nats, means over heads and queries; None at the perturbed block (its
        attention comes before the perturbation) and where the model's weights are not measured.
    norm_statistic: per norm of the block, by role, mean statistic / mean clean statistic - 1, where the statistic is
        the standard deviation (LayerNorm) or root mean square (RMSNorm) of what the norm reads. The last block also
        has the final norm. Empty at the perturbed block (unless it is the last), and where the norms' kind is unknown.
    """

    block: int
    distance: np.ndarray
    relative: np.ndarray
    radial: np.ndarray
    angular: np.ndarray
    cosine: np.ndarray
    attention_entropy: np.ndarray | None
    attention_js: np.ndarray | None
    norm_statistic: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Travel:
    """How the error of one condition travels: the perturbed block, then every later one.

    tokens: (B,) tokens that the means run over. eligible, infeasible, realised: as in `Outcome`.
    """

    blocks: tuple[AtBlock, ...]
    tokens: np.ndarray
    eligible: np.ndarray
    infeasible: np.ndarray
    realised: Realised


@dataclass
class _Seen:
    """What one pass shows: block outputs (B, T, d), norm statistics (B, T), attention weights (B, heads, T, T)."""

    states: dict[int, Tensor] = field(default_factory=dict)
    scales: dict[tuple[int, str], Tensor] = field(default_factory=dict)
    weights: dict[int, Tensor] = field(default_factory=dict)


def propagated(
    engine: Engine, batch: Batch, conditions: Many[Condition], tokens: int, *, attention: bool
) -> Iterator[tuple[Condition, Travel]]:
    """How the error of every condition travels; at most `tokens` padded tokens are run at once.

    engine: its protocol perturbs one layer. attention: whether to measure attention weights (see `weights_refused`).

    Raises UsageError for a protocol of several layers; SiteError where attention weights cannot be had.
    """
    if len(engine.protocol.layers) != 1:
        raise UsageError("propagation follows a perturbation of one layer", where="layers", fix="Perturb one layer.")
    lm, first = engine.lm, engine.protocol.layers[0]
    last, kept = lm.n_layers - 1, _Seen()
    usual: dict[int, Tensor] = {}
    clean = engine.clean(batch, captured(lm.blocks, [last], lambda n, output: usual.update({n: hidden_of(output)})))

    def keep_state(layer: int, hidden: Tensor) -> None:
        kept.states[layer] = hidden.clone()

    def keep_scale(layer: int, role: str, scale: Tensor) -> None:
        kept.scales[layer, role] = scale.reshape(batch.shape)

    def keep_weights(layer: int, weights: Tensor) -> None:
        kept.weights[layer] = weights.clone()

    watch = partial(_watching, lm, first, attention=attention)
    engine.unperturbed(batch, clean, watch(keep_state, keep_scale, keep_weights))
    if attention:
        real = batch.mask.bool()
        require_same(lm, kept.states[last].cpu()[real], usual[last].cpu()[real])
    for stack in engine.stacks(batch, clean, conditions, tokens):
        means = _Means(batch, kept, len(stack.conditions))
        engine.states(batch, clean, stack, watch(means.state, means.scale, means.weights), logits=False)
        for k, condition in enumerate(stack.conditions):
            infeasible = (stack.chosen[k] & ~stack.possible[k]) | stack.realised[k].left
            yield (
                condition,
                Travel(
                    tuple(means.at(k, layer) for layer in range(first, lm.n_layers)),
                    means.tokens.numpy().astype(np.int64),
                    stack.chosen[k].sum(-1).numpy(),
                    infeasible.sum(-1).numpy(),
                    stack.realised[k],
                ),
            )


@contextmanager
def _watching(
    lm: LanguageModel,
    first: int,
    state: Callable[[int, Tensor], None],
    scale: Callable[[int, str, Tensor], None],
    weights: Callable[[int, Tensor], None],
    *,
    attention: bool,
) -> Iterator[None]:
    """Show block outputs from `first` on, and the norms' statistics and the attention weights above it."""

    def read(layer: int, role: str, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = first_input(args, kwargs)
        assert x is not None
        scale(layer, role, statistic(x, lm.anatomy.norm_kind))

    def registrations() -> Iterator[Callable[[], Any]]:
        for layer in range(first, lm.n_layers):
            yield partial(
                lm.blocks[layer].register_forward_hook,
                lambda _, __, output, layer=layer: state(layer, hidden_of(output)),
            )
        for layer, role, norm in _norms_above(lm.anatomy, first):
            yield partial(norm.register_forward_pre_hook, partial(read, layer, role), with_kwargs=True)

    with ExitStack() as entered:
        if attention:
            entered.enter_context(watching_weights(lm, range(first + 1, lm.n_layers), weights))
        entered.enter_context(hooked(registrations()))
        yield


def _norms_above(anatomy: Anatomy, first: int) -> Iterator[tuple[int, str, nn.Module]]:
    if anatomy.norm_kind == "unknown":
        return
    for block in anatomy.blocks[first + 1 :]:
        for role in NORMS:
            norm = getattr(block, role)
            if norm is not None:
                yield block.index, role, norm
    if anatomy.final_norm is not None:
        yield len(anatomy.blocks) - 1, FINAL, anatomy.final_norm


class _Means:
    """Means over the counted tokens of each row, as a stack of K conditions shows itself; arrays are (K, B)."""

    def __init__(self, batch: Batch, kept: _Seen, copies: int) -> None:
        self._counted = batch.mask.bool().clone()
        if batch.has_bos:
            self._counted[:, 0] = False
        self.tokens = self._counted.sum(-1)
        self._kept, self._copies, self._shape = kept, copies, batch.shape
        self._of: dict[tuple[int, str], np.ndarray] = {}

    def state(self, layer: int, hidden: Tensor) -> None:
        clean = self._kept.states[layer]
        size = self._mean(norms(clean))
        gaps = [gap(clean, moved) for moved in torch.split(hidden, self._shape[0])]
        for name in ("distance", "radial", "angular", "cosine"):
            self._of[layer, name] = np.stack([self._mean(getattr(one, name)) for one in gaps])
        self._of[layer, "relative"] = self._of[layer, "distance"] / size

    def scale(self, layer: int, role: str, scale: Tensor) -> None:
        then = self._mean(self._kept.scales[layer, role])
        now = np.stack([self._mean(one) for one in scale.reshape(self._copies, *self._shape)])
        self._of[layer, role] = now / then - 1

    def weights(self, layer: int, weights: Tensor) -> None:
        clean = self._kept.weights[layer]
        before = entropy(clean)
        pairs = [
            (self._mean((entropy(moved) - before).mean(1)), self._mean(jensen_shannon(clean, moved).mean(1)))
            for moved in torch.split(weights, self._shape[0])
        ]
        self._of[layer, "attention_entropy"], self._of[layer, "attention_js"] = map(np.stack, zip(*pairs, strict=True))

    def at(self, copy: int, layer: int) -> AtBlock:
        def of(name: str) -> np.ndarray | None:
            found = self._of.get((layer, name))
            return None if found is None else found[copy]

        named = ("distance", "relative", "radial", "angular", "cosine", "attention_entropy", "attention_js")
        scales = {role: found for role in (*NORMS, FINAL) if (found := of(role)) is not None}
        return AtBlock(block=layer, norm_statistic=scales, **{name: of(name) for name in named})  # type: ignore[arg-type]

    def _mean(self, values: Tensor) -> np.ndarray:
        """(B, T) -> (B,)."""
        counted = torch.where(self._counted, values.cpu().double(), 0.0)
        return np.asarray((counted.sum(-1) / self.tokens).numpy())
