"""Tiny causal language models with random weights, built from configurations without any download.

`tiny("llama")` gives a model in eval mode: 3 blocks, width 32, 4 heads, 320 vocabulary rows, 128 positions, every
parameter random (norm gains and biases too, so that no mistake hides behind a gain of 1). The tokenizer of
`tiny_tokenizer()` has 300 entries, fewer than the model has rows, as in many real models.
In tests: `from tiny import FAMILIES, save_tiny, tiny, tiny_tokenizer`.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

VOCABULARY, POSITIONS, WIDTH, LAYERS, HEADS = 320, 128, 32, 3, 4

_GPT2 = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": POSITIONS, "n_ctx": POSITIONS}
_PLAIN = {
    "hidden_size": WIDTH,
    "intermediate_size": 2 * WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": POSITIONS,
}
_GROUPED = _PLAIN | {"num_key_value_heads": 2}
_GEMMA = _GROUPED | {"head_dim": 8}
_GEMMA2 = _GEMMA | {"query_pre_attn_scalar": 8, "sliding_window": 16}
_OPT = {k: v for k, v in _PLAIN.items() if k != "intermediate_size"} | {
    "ffn_dim": 2 * WIDTH,
    "word_embed_proj_dim": WIDTH,
}
_FALCON = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": POSITIONS,
}
_BLOOM = {"hidden_size": WIDTH, "n_layer": LAYERS, "n_head": HEADS}

# name -> (model_type, configuration)
_SPECS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", _GPT2),
    "gpt_bigcode": ("gpt_bigcode", _GPT2),
    "gpt_neo": (
        "gpt_neo",
        {
            "hidden_size": WIDTH,
            "num_layers": LAYERS,
            "num_heads": HEADS,
            "max_position_embeddings": POSITIONS,
            "attention_types": [[["global", "local", "global"], 1]],
            "window_size": 8,
        },
    ),
    "gptj": ("gptj", _GPT2 | {"rotary_dim": 4}),
    "codegen": ("codegen", _GPT2 | {"rotary_dim": 4}),
    "gpt_neox": ("gpt_neox", _PLAIN | {"rotary_pct": 0.5, "use_parallel_residual": True}),
    "gpt_neox-sequential": ("gpt_neox", _PLAIN | {"rotary_pct": 0.5, "use_parallel_residual": False}),
    "opt": ("opt", _OPT),
    "opt-post_norm": ("opt", _OPT | {"do_layer_norm_before": False, "word_embed_proj_dim": 16}),
    "bloom": ("bloom", _BLOOM),
    "falcon-7b": ("falcon", _FALCON | {"multi_query": True, "parallel_attn": True, "alibi": False}),
    "falcon-40b": ("falcon", _FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2, "alibi": False}),
    "falcon-rw": ("falcon", _FALCON | {"parallel_attn": False, "multi_query": False, "alibi": True, "bias": True}),
    "mpt": (
        "mpt",
        {"d_model": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "max_seq_len": POSITIONS, "expansion_ratio": 2},
    ),
    "llama": ("llama", _GROUPED),
    "mistral": ("mistral", _GROUPED | {"sliding_window": None}),
    "qwen2": ("qwen2", _GROUPED),
    "smollm3": ("smollm3", _GROUPED),
    "phi3": ("phi3", _GROUPED),
    "qwen3": ("qwen3", _GROUPED | {"head_dim": 8}),
    "mixtral": ("mixtral", _GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    "gemma": ("gemma", _GEMMA),
    "gemma2": ("gemma2", _GEMMA2),
    "gemma3": ("gemma3_text", _GEMMA2 | {"sliding_window_pattern": 2}),
    "olmo": ("olmo", _GROUPED),
    "olmo2": ("olmo2", _GROUPED),
    "phi": ("phi", _PLAIN),
    "cohere": ("cohere", _GROUPED),
    "stablelm": ("stablelm", _GROUPED),
    "stablelm-parallel": ("stablelm", _GROUPED | {"use_parallel_residual": True}),
    "starcoder2": ("starcoder2", _GROUPED),
    "granite": ("granite", _GROUPED | {"residual_multiplier": 0.3, "embedding_multiplier": 2.0, "logits_scaling": 3.0}),
    "biogpt": ("biogpt", _PLAIN),
}
FAMILIES = list(_SPECS)

_SENTENCES = (
    "The cat that the dogs chase sleeps on the mat.",
    "The authors near the window were reading a long letter from the manager.",
    "Some teachers who know the pilot have never seen these mountains.",
    "A river runs through the valley and the old town stands beside it.",
    "She said that it would rain, but the children went out to play.",
    "These movies about the analysis were shown in many countries after 1999.",
    "No one has descended the hill since the bridge was closed in winter.",
    "Every sentence here was written by hand so that words share their pieces.",
)


def tiny_config(family: str, **overrides: Any) -> Any:
    """The configuration of `tiny(family, **overrides)`."""
    model_type, settings = _SPECS[family]
    ids = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, "vocab_size": VOCABULARY}
    return AutoConfig.for_model(model_type, **(ids | settings | overrides))


def tiny(family: str = "gpt2", *, seed: int = 0, **overrides: Any) -> PreTrainedModel:
    """A tiny float32 model in eval mode; `overrides` replace configuration values. Same seed, same weights."""
    model = AutoModelForCausalLM.from_config(tiny_config(family, **overrides), dtype=torch.float32)
    randomise(model, seed)
    return model.eval().requires_grad_(False)


def randomise(model: PreTrainedModel, seed: int = 0) -> None:
    """Give every parameter random values of a usual size, from a generator of its own."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        embeddings = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
        for _, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:  # gains stay around 1 (around 0 where the module adds 1), biases around 0
                parameter.add_(0.3 * noise)
            elif id(parameter) in embeddings:
                parameter.copy_(0.4 * noise)
            else:
                parameter.copy_(noise * parameter.shape[-1] ** -0.5)


@cache
def _trained_tokenizer(vocab_size: int) -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_SENTENCES, trainer)
    return tokenizer.to_str()


def tiny_tokenizer(
    vocab_size: int = 300, *, bos: str | None = "<s>", eos: str | None = "</s>"
) -> PreTrainedTokenizerFast:
    """Byte-level BPE trained on eight sentences (vocab_size >= 258); `<s>` has id 0, `</s>` id 1, padding is eos."""
    named = {"bos_token": bos, "eos_token": eos, "pad_token": eos}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_trained_tokenizer(vocab_size)),
        **{role: token for role, token in named.items() if token is not None},
    )


def save_tiny(
    path: str | Path, family: str = "gpt2", *, seed: int = 0, tokenizer: bool = True, **overrides: Any
) -> Path:
    """Write `tiny(family)` (safetensors) and its tokenizer as a directory for `polarlens.load`; returns the path."""
    folder = Path(path)
    tiny(family, seed=seed, **overrides).save_pretrained(folder)
    if tokenizer:
        tiny_tokenizer().save_pretrained(folder)
    return folder


def edit_config(folder: str | Path, **changes: Any) -> None:
    """Change values of a saved model's config.json."""
    path = Path(folder) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
