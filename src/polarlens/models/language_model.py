"""A causal language model together with what Polarlens knows about its parts."""

import html
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, Literal

import torch
from torch import nn
from transformers import PreTrainedModel

from polarlens.models import digest
from polarlens.models.anatomy import Anatomy
from polarlens.models.inspection import inspect, text_config, window_of
from polarlens.models.notes import routing_note
from polarlens.models.source import Source
from polarlens.perturbation import MATCHED, Arm, Policy


class LanguageModel:
    """An untouched Hugging Face model in eval mode, its tokenizer, and its verified anatomy.

    Parameters
    ----------
    hf: a causal language model. Eval mode is set and gradients of its parameters are switched off.
    tokenizer: its tokenizer, or None.
    name: shown in messages and results.
    notes: known from how it was loaded.

    Attributes
    ----------
    hf, tokenizer, name, source, anatomy
    notes: what a reader of its numbers should know (routing to experts, values missing from a GGUF file).
    n_layers, width: blocks, and channels of the residual stream.
    window: the largest number of positions, or None where the family has no limit.

    Raises ModelError when the block outputs cannot be verified or the model is not causal.
    """

    def __init__(
        self,
        hf: PreTrainedModel,
        tokenizer: Any = None,
        *,
        name: str = "model",
        source: Source | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.hf = hf.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.name = name
        self.source = source or Source("memory", name)
        config = text_config(hf)
        self.window = window_of(config)
        self.notes = (*notes, *routing_note(config))
        self.anatomy: Anatomy = inspect(name, hf, len(tokenizer) if tokenizer is not None else None, self.device)
        self.n_layers = len(self.anatomy.blocks)
        self.width = int(config.hidden_size)

    @property
    def blocks(self) -> nn.ModuleList:
        """The list of transformer blocks, first to last."""
        return self.anatomy.layers

    @property
    def head(self) -> nn.Module:
        """The output embedding: residual stream to logits."""
        return self.anatomy.head

    @property
    def norm_kind(self) -> str:
        """`layernorm`, `rmsnorm` or `unknown`, by behaviour."""
        return self.anatomy.norm_kind

    @property
    def device(self) -> torch.device:
        """Where token ids go: the device of the input embedding (accelerate's execution device when it is split)."""
        hook = getattr(self.hf.get_input_embeddings(), "_hf_hook", None)
        device = getattr(hook, "execution_device", None)
        if device is not None:
            return torch.device(device)
        return next(self.hf.get_input_embeddings().parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return self.hf.dtype

    @cached_property
    def n_params(self) -> int:
        """Number of parameters, shared ones counted once."""
        return sum(parameter.numel() for parameter in self.hf.parameters())

    @cached_property
    def weights_digest(self) -> str:
        """SHA-256 (hex) over all tensors of the model."""
        return digest.weights_digest(self.hf)

    @cached_property
    def config_digest(self) -> str:
        """SHA-256 (hex) of the configuration values that decide what the model computes."""
        return digest.config_digest(self.hf)

    @cached_property
    def tokenizer_digest(self) -> str | None:
        """SHA-256 (hex) of the tokenizer, or None without one."""
        return digest.tokenizer_digest(self.tokenizer)

    def perturbed(
        self,
        layers: Sequence[int],
        arm: Arm,
        delta: float,
        delta_mode: Literal["relative", "absolute"] = "relative",
        seed: int = 0,
        positions: Literal["all", "no-first", "no-sinks"] = "all",
        policy: Policy = MATCHED,
    ) -> AbstractContextManager[None]:
        """A context in which the outputs of `layers` are perturbed in every forward pass, also under `generate`.

        The row of the batch is the item of the noise and a token's index counts the row's real tokens, through a cache
        too: padding is never perturbed and changes nothing. A `sink` under `no-sinks` is a token whose norm exceeds ten
        times the median of its row so far. Hooks come off on exit, whatever happens.

        Raises UsageError for layers, deltas, positions or policies that are not possible here.
        """
        from polarlens.models.perturbed import perturbed

        return perturbed(self, layers, arm, delta, delta_mode, seed, positions, policy)

    def __repr__(self) -> str:
        return "\n".join(f"{title}: {value}" for title, value in self._summary())

    def _repr_html_(self) -> str:
        rows = (f"<tr><th>{html.escape(t)}</th><td>{html.escape(v)}</td></tr>" for t, v in self._summary())
        return f"<table>{''.join(rows)}</table>"

    def _summary(self) -> list[tuple[str, str]]:
        anatomy = self.anatomy
        available = [site.name for site in anatomy.sites.values() if site.available]
        refused = [f"{site.name} ({site.how})" for site in anatomy.sites.values() if not site.available]
        family = anatomy.family if anatomy.known else f"{anatomy.family} (parts discovered)"
        return [
            ("LanguageModel", self.name),
            ("family", f"{family}, {anatomy.wiring} wiring, {anatomy.norm_kind}"),
            ("size", f"{self.n_layers} blocks of width {self.width}, {self.n_params:,} parameters"),
            ("loaded", f"{self.dtype} on {self.device}".replace("torch.", "")),
            ("sites", ", ".join(available)),
            *([("refused", "; ".join(refused))] if refused else []),
            *(("note", note) for note in self.notes),
        ]
