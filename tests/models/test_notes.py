"""Notes on a model: experts, and what a GGUF file lacks or transformers does not read from it."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, LlavaConfig, LlavaForConditionalGeneration

import polarlens as pl
from polarlens.cli.main import main
from polarlens.models import check, load
from polarlens.models.gguf_file import GgufHeader
from polarlens.models.language_model import LanguageModel
from polarlens.models.notes import gguf_notes
from tiny import save_tiny, tiny, tiny_config, tiny_tokenizer


def notes(family: str, values: dict[str, Any], *, rope_factors: bool = False, **overrides: Any) -> str:
    header = GgufHeader(family, None, values, rope_factors)
    return "\n".join(gguf_notes(header, tiny_config(family, **overrides)))


def test_gemma2_lacks_its_scale() -> None:
    assert "does not hold query_pre_attn_scalar = 256" in notes("gemma2", {}, query_pre_attn_scalar=256)
    assert notes("llama", {}) == ""


def test_values_that_were_not_read() -> None:
    same = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "attention.key_length": 8}
    assert "did not read" not in notes("gemma2", same)
    assert "attn_logit_softcapping = 20, but" in notes("gemma2", same | {"attn_logit_softcapping": 20.0})
    assert "rope.freq_base = 500000" in notes("starcoder2", {"rope.freq_base": 5e5})
    assert "and uses 10000" in notes("starcoder2", {"rope.freq_base": 5e5})


def test_rotary_positions_that_were_not_read() -> None:
    assert notes("stablelm", {"rope.dimension_count": 2}) == ""  # a quarter of 8
    assert "rotates 4 channels of a head" in notes("stablelm", {"rope.dimension_count": 4})
    assert "not scaled" in notes("llama", {"rope.scaling.type": "linear"})
    assert "not scaled" in notes("llama", {}, rope_factors=True)
    scaled = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
    assert notes("llama", {"rope.scaling.type": "linear"}, rope_parameters=scaled) == ""


def test_a_mixture_of_experts_says_so_and_is_measured(tmp_path: Path) -> None:
    report = check(LanguageModel(tiny("mixtral"), tiny_tokenizer(), name="moe"))
    (note,) = report.as_dict()["notes"]
    assert "experts (4 per layer)" in note
    assert f"! {note}" in str(report)
    assert LanguageModel(tiny("llama")).notes == ()
    texts = tmp_path / "t.txt"
    texts.write_text("The river runs through the old town.\nShe said that it would rain.\n")
    run = pl.run(
        save_tiny(tmp_path / "moe", "mixtral"), text=str(texts), delta="0.1", seeds=1, positions="all",
        experiments="sweep", quiet=True, out=tmp_path / "run",
    )  # fmt: skip
    assert run.failed == ()
    assert run.manifest["model"]["notes"] == [note]
    assert note in run.summary["warnings"]
    nll = run.table("sweep").query("arm != 'clean'")["nll"]
    assert nll.notna().all()


VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
          "image_size": 28, "patch_size": 14}  # fmt: skip


def test_the_language_part_of_a_vision_language_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = Gemma3Config(
        text_config=tiny_config("gemma3").to_dict(), vision_config=VISION, mm_tokens_per_image=4, image_token_index=310
    )
    Gemma3ForConditionalGeneration(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    assert main(["check", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["family"], found["n_layers"], found["wiring"]) == ("gemma3_text", 3, "sandwich")
    assert load(tmp_path).source.kind == "directory"


def test_a_vision_language_checkpoint_without_a_causal_class_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clip = {"model_type": "clip_vision_model", **VISION, "projection_dim": 32}
    config = LlavaConfig(text_config=tiny_config("llama").to_dict(), vision_config=clip, image_token_index=310)
    LlavaForConditionalGeneration(config).save_pretrained(tmp_path)
    assert main(["check", str(tmp_path)]) == 3
    assert "a vision-language model (llava)" in capsys.readouterr().err


def test_other_kinds_exit_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import BertConfig, BertForMaskedLM, T5Config, T5ForConditionalGeneration

    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    t5 = T5Config(d_model=32, d_ff=64, num_layers=1, num_heads=4, d_kv=8, vocab_size=320)
    kinds = {
        "encoder-only": BertForMaskedLM(BertConfig(**small, vocab_size=320)),
        "sequence-to-sequence": T5ForConditionalGeneration(t5),
    }
    for kind, model in kinds.items():
        model.save_pretrained(tmp_path / kind)
        assert main(["check", str(tmp_path / kind)]) == 3
        assert kind in capsys.readouterr().err
