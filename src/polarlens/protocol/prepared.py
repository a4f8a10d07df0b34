"""A run with its model and items in hand, and the settings that its numbers depend on."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from polarlens.errors import ModelError
from polarlens.protocol.config import RunConfig
from polarlens.protocol.layers import format_layers, parse_layers
from polarlens.protocol.presets import policies_as_data
from polarlens.protocol.tasks import Read, TaskData, encode_data

if TYPE_CHECKING:
    from polarlens.models import LanguageModel
    from polarlens.models.tokens import BosPolicy
    from polarlens.perturbation.planes import Reference

# Raised whenever a change of the code changes numbers, so that old rows are never mixed with new ones.
NUMERICS = 1
BATCH_TOKENS = 2048


@dataclass(frozen=True)
class Prepared:
    """A run with its model and items, ready to be planned."""

    config: RunConfig
    lm: "LanguageModel"
    groups: tuple[tuple[int, ...], ...]
    data: list[TaskData]
    bos: "BosPolicy"

    @property
    def tasks(self) -> list[TaskData]:
        """The tasks in which a loss is measured, texts first: all but the trees."""
        return [task for task in self.data if task.task != "trees"]

    @property
    def trees(self) -> TaskData | None:
        """The treebank, where there is one."""
        return next((task for task in self.data if task.task == "trees"), None)

    @cached_property
    def weights_refused(self) -> str | None:
        """Why attention weights of this model cannot be had, or None where they can."""
        from polarlens.engine.weights import weights_refused

        return weights_refused(self.lm)

    @cached_property
    def references(self) -> "dict[int, Reference]":
        """Layer -> clean states that some planes draw from, of the texts where there are any."""
        from polarlens.protocol.references import references

        return references(self.lm, self.data[0], {layer for group in self.groups for layer in group})

    @property
    def batch_tokens(self) -> int:
        """Padded tokens of one forward pass."""
        return self.config.batch_tokens or BATCH_TOKENS


def prepare(config: RunConfig, lm: "LanguageModel", read: Read) -> Prepared:
    """Read the layers against the model, settle BOS, encode the items. Raises UsageError and ModelError."""
    from polarlens.models.tokens import resolve_bos

    if lm.tokenizer is None:
        fix = "Put its tokenizer files beside the weights."
        raise ModelError("the model comes without a tokenizer", where=lm.name, fix=fix)
    groups = parse_layers(config.layers, lm.n_layers)
    bos = resolve_bos(lm.tokenizer, config.bos or "auto")
    return Prepared(config, lm, groups, encode_data(read, config, lm, bos), bos)


def settings_of(prepared: Prepared) -> dict[str, Any]:
    """Everything that changes existing numbers; a difference is refused when a folder is extended."""
    config, lm = prepared.config, prepared.lm
    settings: dict[str, Any] = {
        "numerics": NUMERICS,
        "model_weights": lm.weights_digest,
        "tokenizer": lm.tokenizer_digest,
        "model_config": lm.config_digest,
        "dtype": str(lm.dtype).removeprefix("torch."),
        "attention": lm.hf.config._attn_implementation,
        "bos": prepared.bos.id,
        "layers": config.layers if config.layers == "each" else format_layers(prepared.groups[0]),
        "delta_mode": config.delta_mode,
        "max_tokens": config.max_tokens,
        "preset": config.preset,
        "policies": policies_as_data(config.preset),
    }
    if config.delta_mode == "site":  # other items would move the medians
        settings["site_items"] = {task.task: digest(sorted(task.by_key)) for task in prepared.data}
    return settings


def digest(document: Any) -> str:
    """SHA-256 of a JSON document, hex."""
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()
