"""Where the parts of a block are, by family: records of data, no code per architecture.

A record names modules by their path inside a block. Several names separated by `|` are tried in order, because one
family may have several layouts (Falcon: `ln_attn` or `input_layernorm`). What a record says is never believed: every
model is verified numerically when it is loaded (`verify`), and the wiring is measured, not looked up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Family:
    """Paths and conventions of one family (of one layout of it, where `when` says so).

    layers, final_norm: paths from the causal model to the list of blocks and to the norm before the head.
    attention, mlp: paths inside a block to the module whose output goes into the residual stream.
    mlp_input: the module that reads the MLP's input, where it is another one (`fc1` before `fc2`).
    pre_attention_norm, pre_mlp_norm: norms of what attention and MLP read.
    post_attention_norm, post_mlp_norm: norms of what they return, before it is added (sandwich norms), or of the sum
        when `norms_after_addition`.
    attention_adds_residual, mlp_adds_residual: the module itself adds the stream to what it returns.
    residual_multiplier: name of the configuration value that scales both contributions.
    when: configuration values this record is for.
    """

    layers: str
    attention: str
    mlp: str
    final_norm: str | None
    pre_attention_norm: str | None = None
    pre_mlp_norm: str | None = None
    post_attention_norm: str | None = None
    post_mlp_norm: str | None = None
    mlp_input: str | None = None
    attention_adds_residual: bool = False
    mlp_adds_residual: bool = False
    norms_after_addition: bool = False
    residual_multiplier: str | None = None
    when: Mapping[str, Any] = field(default_factory=dict)


def _gpt2(**changes: Any) -> Family:
    record = {
        "layers": "transformer.h",
        "attention": "attn",
        "mlp": "mlp",
        "pre_attention_norm": "ln_1",
        "pre_mlp_norm": "ln_2",
        "final_norm": "transformer.ln_f",
    }
    return Family(**record | changes)


def _llama(**changes: Any) -> Family:
    record = {
        "layers": "model.layers",
        "attention": "self_attn",
        "mlp": "mlp",
        "pre_attention_norm": "input_layernorm",
        "pre_mlp_norm": "post_attention_layernorm",
        "final_norm": "model.norm",
    }
    return Family(**record | changes)


_LLAMA = _llama()
_ONE_NORM = _llama(pre_mlp_norm=None)
_SANDWICH = _llama(
    pre_mlp_norm="pre_feedforward_layernorm",
    post_attention_norm="post_attention_layernorm",
    post_mlp_norm="post_feedforward_layernorm",
)
_OPT = Family(
    layers="model.decoder.layers",
    attention="self_attn",
    mlp="fc2",
    mlp_input="fc1",
    pre_attention_norm="self_attn_layer_norm",
    pre_mlp_norm="final_layer_norm",
    final_norm="model.decoder.final_layer_norm",
)
_OPT_POST_NORM = Family(
    layers="model.decoder.layers",
    attention="self_attn",
    mlp="fc2",
    mlp_input="fc1",
    post_attention_norm="self_attn_layer_norm",
    post_mlp_norm="final_layer_norm",
    norms_after_addition=True,
    final_norm=None,
    when={"do_layer_norm_before": False},
)

# config.model_type -> its records; the first whose `when` holds is used
FAMILIES: Mapping[str, tuple[Family, ...]] = {
    "gpt2": (_gpt2(),),
    "gpt_bigcode": (_gpt2(),),
    "gpt_neo": (_gpt2(),),
    "gptj": (_gpt2(pre_mlp_norm=None),),
    "codegen": (_gpt2(pre_mlp_norm=None),),
    "gpt_neox": (_llama(layers="gpt_neox.layers", attention="attention", final_norm="gpt_neox.final_layer_norm"),),
    "opt": (_OPT_POST_NORM, _OPT),
    "bloom": (
        _gpt2(
            attention="self_attention",
            pre_attention_norm="input_layernorm",
            pre_mlp_norm="post_attention_layernorm",
            attention_adds_residual=True,
            mlp_adds_residual=True,
        ),
    ),
    "falcon": (
        _gpt2(
            attention="self_attention",
            pre_attention_norm="ln_attn|input_layernorm",
            pre_mlp_norm="ln_mlp|post_attention_layernorm",
        ),
    ),
    "mpt": (
        _gpt2(
            layers="transformer.blocks",
            mlp="ffn",
            pre_attention_norm="norm_1",
            pre_mlp_norm="norm_2",
            final_norm="transformer.norm_f",
            mlp_adds_residual=True,
        ),
    ),
    "llama": (_LLAMA,),
    "mistral": (_LLAMA,),
    "qwen2": (_LLAMA,),
    "smollm3": (_LLAMA,),
    "phi3": (_LLAMA,),
    "qwen3": (_LLAMA,),
    "mixtral": (_LLAMA,),
    "gemma": (_LLAMA,),
    "gemma2": (_SANDWICH,),
    "gemma3_text": (_SANDWICH,),
    "olmo": (_LLAMA,),
    "olmo2": (
        _llama(
            pre_attention_norm=None,
            pre_mlp_norm=None,
            post_attention_norm="post_attention_layernorm",
            post_mlp_norm="post_feedforward_layernorm",
        ),
    ),
    "phi": (_llama(pre_mlp_norm=None, final_norm="model.final_layernorm"),),
    "cohere": (_ONE_NORM,),
    "stablelm": (_LLAMA,),
    "starcoder2": (_LLAMA,),
    "granite": (_llama(residual_multiplier="residual_multiplier"),),
    "biogpt": (
        Family(
            layers="biogpt.layers",
            attention="self_attn",
            mlp="fc2",
            mlp_input="fc1",
            pre_attention_norm="self_attn_layer_norm",
            pre_mlp_norm="final_layer_norm",
            final_norm="biogpt.layer_norm",
        ),
    ),
}


def family_of(config: Any) -> Family | None:
    """The record for a (text) configuration, or None for a family without one."""
    for family in FAMILIES.get(config.model_type, ()):
        if all(getattr(config, name, None) == value for name, value in family.when.items()):
            return family
    return None
