"""The two models: stock Hugging Face classes, equal in every weight at the start, different in the norm alone."""

import hashlib
from typing import TYPE_CHECKING

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StableLmConfig, StableLmForCausalLM

from polarlens.twins.recipe import Norm, Recipe

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def build(norm: Norm, recipe: Recipe) -> "PreTrainedModel":
    """An untrained twin. Its weights depend on `recipe.seed` and the sizes, not on `norm`.

    `rmsnorm` is a Llama; `layernorm` is a StableLM with full rotary embedding, sequential residuals, no biases in the
    projections and the norms' biases frozen at 0, so that LayerNorm differs from RMSNorm in subtracting the mean alone.
    """
    sizes = {
        "vocab_size": recipe.vocabulary,
        "hidden_size": recipe.width,
        "intermediate_size": recipe.mlp_width,
        "num_hidden_layers": recipe.n_layers,
        "num_attention_heads": recipe.n_heads,
        "num_key_value_heads": recipe.n_heads,
        "max_position_embeddings": recipe.length,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": None,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        llama = LlamaForCausalLM(LlamaConfig(**sizes, rms_norm_eps=recipe.norm_eps))
    if norm == "rmsnorm":
        return llama
    config = StableLmConfig(
        **sizes, layer_norm_eps=recipe.norm_eps, partial_rotary_factor=1.0, use_parallel_residual=False,
        qk_layernorm=False, use_qkv_bias=False,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        stable = StableLmForCausalLM(config)
    missing, unexpected = stable.load_state_dict(llama.state_dict(), strict=False)
    biases = {name for name, _ in stable.named_parameters() if "norm" in name and name.endswith(".bias")}
    if unexpected or set(missing) != biases:
        raise RuntimeError(f"the twins' parts differ: missing {missing}, unexpected {unexpected}")
    for name, parameter in stable.named_parameters():
        if name in biases:
            parameter.requires_grad_(False).zero_()
    return stable


def weights_digest(model: "PreTrainedModel") -> str:
    """SHA-256 over the trainable weights by name, 16 hex digits: equal for both twins before training."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        if parameter.requires_grad:
            digest.update(name.encode() + parameter.detach().numpy().tobytes())
    return digest.hexdigest()[:16]
