"""SmolLM2-135M-Instruct from a Q4_1 GGUF: the one real model that tests can have."""

import pytest
import torch

from polarlens.models import SITES, LanguageModel, check, resolve_bos

pytestmark = pytest.mark.smollm2


def test_anatomy(smollm2: LanguageModel) -> None:
    assert (smollm2.n_layers, smollm2.width, smollm2.window) == (30, 576, 8192)
    assert (smollm2.source.kind, smollm2.source.quantisation) == ("gguf", "Q4_1")
    assert (smollm2.anatomy.wiring, smollm2.norm_kind) == ("sequential", "rmsnorm")
    assert all(smollm2.anatomy.require(site).available for site in SITES)
    assert smollm2.n_params == 134_515_008
    assert "stored as Q4_1" in str(check(smollm2))


def test_bos_and_language(smollm2: LanguageModel) -> None:
    assert resolve_bos(smollm2.tokenizer, "auto").token == "<|im_start|>"
    ids = smollm2.tokenizer("The capital of France is", return_tensors="pt").input_ids
    with torch.no_grad():
        assert smollm2.tokenizer.decode(smollm2.hf(ids).logits[0, -1].argmax()) == " Paris"


def test_perturbed_generation_with_a_cache(smollm2: LanguageModel) -> None:
    texts = ["The cats", "Once upon a time"]
    smollm2.tokenizer.padding_side = "left"
    batch = smollm2.tokenizer(texts, return_tensors="pt", padding=True)

    def generate(use_cache: bool) -> torch.Tensor:
        with smollm2.perturbed(range(8, 16), "angular", 0.2):
            return smollm2.hf.generate(**batch, max_new_tokens=3, do_sample=False, use_cache=use_cache)

    assert torch.equal(generate(True), generate(False))
