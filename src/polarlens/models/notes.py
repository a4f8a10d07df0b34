"""What a reader of the numbers should know about a model: routing, and values that a GGUF file did not give."""

from collections.abc import Mapping
from typing import Any

from polarlens.models.gguf_file import GgufHeader

# config.model_type -> values that decide what the model computes, and that GGUF files of the family do not hold
NOT_IN_FILES: Mapping[str, tuple[str, ...]] = {
    "gemma2": ("query_pre_attn_scalar",),
    "gemma3_text": ("query_pre_attn_scalar",),
    "nemotron": ("partial_rotary_factor",),
}
# a value of the file -> the value of the configuration that it stands for
SAME: Mapping[str, str] = {
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "attention.sliding_window": "sliding_window",
    "attention.key_length": "head_dim",
    "attention.layer_norm_epsilon": "layer_norm_eps|layer_norm_epsilon|norm_epsilon|norm_eps",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps|norm_eps|layer_norm_epsilon",
    "rope.freq_base": "rope_theta",
    "logit_scale": "logit_scale",
    "residual_scale": "residual_multiplier",
    "embedding_scale": "embedding_multiplier",
    "attention.scale": "attention_multiplier",
}
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")


def routing_note(config: Any) -> tuple[str, ...]:
    """A note where tokens choose among experts; `config` is that of the language model proper."""
    counts = [value for name in _EXPERTS if isinstance(value := getattr(config, name, None), int)]
    if max(counts, default=0) < 2:
        return ()
    return (
        f"a mixture of experts ({max(counts)} per layer): a perturbed state may be routed to other experts, so that "
        "outputs jump where routing changes, and a small displacement need not do little",
    )


def gguf_notes(header: GgufHeader, config: Any) -> tuple[str, ...]:
    """Where the model that was built may not be the file's: values it lacks, and values that were not read from it.

    config: what transformers made of the file.
    """
    notes = []
    lacking = [name for name in NOT_IN_FILES.get(config.model_type, ()) if getattr(config, name, None) is not None]
    if lacking:
        named = ", ".join(f"{name} = {getattr(config, name):g}" for name in lacking)
        notes.append(
            f"a GGUF file of this family does not hold {named}: it is the default of transformers, so compare it with "
            "the original model's config.json"
        )
    for key, names in SAME.items():
        stored = header.values.get(key)
        used = next((found for name in names.split("|") if (found := _value(config, name)) is not None), None)
        if stored is not None and used is not None and abs(stored - used) > 1e-6 * abs(stored):
            notes.append(f"the file says {key} = {stored:g}, but transformers did not read that and uses {used:g}")
    if "rope.dimension_count" in header.values:
        notes += _rotary_share(header.values["rope.dimension_count"], config)
    scaled = header.values.get("rope.scaling.type", "none") != "none" or header.rope_factors
    if scaled and (_rope(config).get("rope_type") or "default") == "default":
        notes.append("the file scales the rotary positions, but transformers did not read that: they are not scaled")
    return tuple(notes)


def _rotary_share(stored: int, config: Any) -> list[str]:
    """A note where another number of channels of a head is rotated than the file says."""
    heads, share = getattr(config, "num_attention_heads", None), _value(config, "partial_rotary_factor")
    size = getattr(config, "head_dim", None) or (config.hidden_size // heads if heads else None)
    if size is None or share is None or round(size * share) == stored:
        return []
    return [
        f"the file rotates {stored} channels of a head, but transformers did not read that and rotates {size * share:g}"
    ]


def _rope(config: Any) -> Mapping[str, Any]:
    """The rotary settings; those of full attention where the kinds of attention have their own."""
    settings = getattr(config, "rope_parameters", None) or {}
    nested = settings.get("full_attention")
    return nested if isinstance(nested, Mapping) else settings


def _value(config: Any, name: str) -> float | None:
    """A number of the configuration or of its rotary settings."""
    found = [getattr(config, name, None), _rope(config).get(name)]
    return next((float(value) for value in found if isinstance(value, int | float)), None)
