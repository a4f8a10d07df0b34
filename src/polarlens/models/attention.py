"""Attention computed by a function of ours, through the registry of attention functions that transformers offers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from polarlens.models.quiet import quiet

NAME = "polarlens"
AttentionFunction = Callable[..., tuple[Tensor, Tensor]]


def weights_of(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    softcap: float | None = None,
) -> Tensor:
    """Attention weights (B, heads, T, S), float32 or better: softmax of scaled, soft-capped and masked scores.

    query (B, heads, T, k), key (B, groups, S, k); attention_mask is added to the scores (None: causal).
    """
    key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if attention_mask is not None:
        scores = scores + attention_mask[..., : scores.shape[-1]]
    elif scores.shape[-2] > 1:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(future.triu(1 + scores.shape[-1] - scores.shape[-2]), float("-inf"))
    return torch.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def apply_weights(weights: Tensor, value: Tensor) -> Tensor:
    """What the heads return: weights (B, heads, T, S) over value (B, groups, S, k) -> (B, T, heads, k)."""
    value = value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)
    return (weights.to(value.dtype) @ value).transpose(1, 2).contiguous()


def plain(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, Tensor]:
    """Softmax attention with the signature of the registry; returns what the heads return, and the weights."""
    known = {name: settings.get(name) for name in ("scaling", "softcap")}
    weights = weights_of(module, query, key, attention_mask, **known)
    return apply_weights(weights, value), weights


@contextmanager
def attention_by(hf: PreTrainedModel, function: AttentionFunction) -> Iterator[None]:
    """Let the model compute attention with `function` while the context is open.

    Some families (BLOOM, GPT-Neo, Falcon, MPT) ignore the registry and go on as before: count the calls.
    """
    config = hf.config
    # Nested configurations without an implementation of their own (MPT) must keep having none.
    nested = {key: getattr(getattr(config, key), "_attn_implementation", None) for key in config.sub_configs}
    before = {key: implementation for key, implementation in nested.items() if implementation is not None}
    before[""] = config._attn_implementation
    AttentionInterface.register(NAME, function)
    AttentionMaskInterface.register(NAME, eager_mask)
    try:
        with quiet():
            hf.set_attn_implementation(dict.fromkeys(before, NAME))
        yield
    finally:
        with quiet():
            hf.set_attn_implementation(before)


@contextmanager
def eager(hf: PreTrainedModel) -> Iterator[None]:
    """Let a family that ignores the registry compute attention eagerly, so that its modules return their weights.

    Set in the configuration, as loading does: these families refuse `set_attn_implementation`.
    """
    config = hf.config
    before = config._attn_implementation
    if before == "eager":
        yield
        return
    config._attn_implementation = "eager"
    try:
        yield
    finally:
        config._attn_implementation = before
