"""Models whose parts cannot be told or trusted: ambiguous lists of blocks, blocks that do not chain, other kinds."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, BertConfig, BertLMHeadModel, Gemma3Config

from polarlens.errors import ModelError, SiteError
from polarlens.models import ATTENTION, BLOCK_OUTPUT, FINAL_NORM, MLP, PATTERN, PRE_ATTENTION_NORM, PRE_MLP_NORM
from polarlens.models import families as records
from polarlens.models.language_model import LanguageModel
from tiny import VOCABULARY, randomise, tiny


def test_two_lists_that_could_hold_the_blocks_are_ambiguous(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "FAMILIES", {})
    hf = tiny("llama")
    hf.model.adapters = nn.ModuleList(nn.Identity() for _ in range(3))
    with pytest.raises(ModelError, match=r"ambiguous") as caught:
        LanguageModel(hf)
    assert "adapters" in str(caught.value)
    assert "layers" in str(caught.value)


def test_lists_inside_the_blocks_are_not_ambiguous(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "FAMILIES", {})
    hf = tiny("llama")
    for layer in hf.model.layers:
        layer.experts = nn.ModuleList(nn.Identity() for _ in range(3))
    assert LanguageModel(hf).blocks is hf.model.layers


def test_no_list_of_that_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "FAMILIES", {})
    hf = tiny("llama")
    hf.config.num_hidden_layers = 2
    with pytest.raises(ModelError, match="no list of 2 modules"):
        LanguageModel(hf)


def test_blocks_that_do_not_chain_are_refused() -> None:
    hf = tiny("gpt2")
    inner = hf.transformer.h[1].forward
    hf.transformer.h[1].forward = lambda x, *args, **kwargs: inner(x + 1, *args, **kwargs)
    LanguageModel(hf)  # inside the block: its own affair, the stream between blocks is whole
    hf = tiny("gpt2")
    hf.transformer.h[1].register_forward_pre_hook(lambda _, args: (args[0] * 1.01, *args[1:]))
    with pytest.raises(ModelError, match=r"block 1.*does not read what the one before it returns"):
        LanguageModel(hf, name="cut")


def test_a_part_that_is_not_what_its_record_says_is_refused_by_site() -> None:
    hf = tiny("llama")
    inner = hf.model.layers[1].forward
    hf.model.layers[1].forward = lambda x, *args, **kwargs: 1.5 * inner(x, *args, **kwargs)
    lm = LanguageModel(hf, name="scaled")
    assert lm.anatomy.require(BLOCK_OUTPUT).available
    with pytest.raises(SiteError, match="block 1"):
        lm.anatomy.require(ATTENTION)


@pytest.mark.parametrize(
    ("family", "wrong", "refused"),
    [
        ("granite", {"residual_multiplier": None}, {ATTENTION, MLP, PRE_MLP_NORM}),
        ("bloom", {"attention_adds_residual": False}, {ATTENTION, MLP, PRE_ATTENTION_NORM, PRE_MLP_NORM}),
        ("mpt", {"mlp_adds_residual": False}, {ATTENTION, MLP, PRE_MLP_NORM}),
        ("gemma2", {"post_attention_norm": None}, {ATTENTION, MLP, PRE_MLP_NORM}),
        ("llama", {"pre_mlp_norm": "input_layernorm"}, {PRE_MLP_NORM}),
        ("gpt2", {"pre_attention_norm": "ln_2"}, {PRE_ATTENTION_NORM}),
        ("gpt2", {"final_norm": "transformer.drop"}, {FINAL_NORM}),
    ],
)
def test_a_record_that_is_wrong_is_never_believed(
    family: str, wrong: dict[str, Any], refused: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = replace(records.FAMILIES[family][0], **wrong)
    monkeypatch.setattr(records, "FAMILIES", {family: (record,)})
    anatomy = LanguageModel(tiny(family)).anatomy
    assert {name for name, site in anatomy.sites.items() if not site.available} - {PATTERN} == refused
    assert (anatomy.wiring == "unknown") == (PRE_MLP_NORM in refused)


@pytest.mark.filterwarnings("ignore")
def test_a_bidirectional_model_is_not_causal() -> None:
    config = BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=VOCABULARY,
        max_position_embeddings=64, is_decoder=False,
    )  # fmt: skip
    torch.manual_seed(0)
    with pytest.raises(ModelError, match="not causal"):
        LanguageModel(BertLMHeadModel(config), name="bert")


def test_states_that_overflow_are_named_by_block() -> None:
    hf = tiny("gpt2")
    with torch.no_grad():
        hf.transformer.h[1].mlp.c_proj.bias.fill_(float("inf"))
    with pytest.raises(ModelError, match=r"block 1.*not finite"):
        LanguageModel(hf, name="overflow")


def test_attention_keeps_its_implementation_and_the_model_its_hooks() -> None:
    for hf in (tiny("llama"), tiny("mpt"), tiny("gemma2"), tiny("bloom"), multimodal()):
        configs = [hf.config, *(getattr(hf.config, key) for key in hf.config.sub_configs)]
        before = [config._attn_implementation for config in configs]
        LanguageModel(hf)
        assert [config._attn_implementation for config in configs] == before
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in hf.modules())


def multimodal() -> Any:
    """A Gemma-3 with a vision tower that has as many layers as the text model."""
    text = {name: getattr(tiny("gemma3").config, name) for name in (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "max_position_embeddings", "query_pre_attn_scalar", "sliding_window", "vocab_size",
    )}  # fmt: skip
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
              "image_size": 28, "patch_size": 14}  # fmt: skip
    config = Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4, image_token_index=310)
    hf = AutoModelForCausalLM.from_config(config)
    randomise(hf)
    return hf.eval()


def test_the_text_model_of_a_multimodal_model_is_found() -> None:
    lm = LanguageModel(multimodal(), name="gemma3-with-eyes")
    assert lm.blocks is lm.hf.model.language_model.layers
    assert lm.anatomy.final_norm is lm.hf.model.language_model.norm
    assert (lm.anatomy.family, lm.anatomy.known, lm.anatomy.wiring) == ("gemma3_text", True, "sandwich")
    assert all(site.available for site in lm.anatomy.sites.values())
