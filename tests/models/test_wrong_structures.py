"""Models whose parts cannot be told or trusted: ambiguous lists of blocks, blocks that do not chain, other kinds."""

from typing import Any

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertLMHeadModel

from polarlens.errors import ModelError, SiteError
from polarlens.models import ATTENTION, BLOCK_OUTPUT
from polarlens.models import families as records
from polarlens.models.language_model import LanguageModel
from tiny import VOCABULARY, tiny


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
    for family in ("llama", "mpt", "gemma2"):
        hf: Any = tiny(family)
        before = hf.config._attn_implementation
        LanguageModel(hf)
        assert hf.config._attn_implementation == before
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in hf.modules())
