"""Folders: what loads, and each way in which a folder is not a usable model, told apart by exit status and message."""

import json
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)

from polarlens.errors import ModelError, UsageError
from polarlens.models import LanguageModel, load
from tiny import edit_config, save_tiny, tiny, tiny_tokenizer

IDS = torch.tensor([[5, 9, 11, 40]])
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_tiny(tmp_path / "model", "llama")


def change_weights(folder: Path, change: Any) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("family", ["llama", "gpt2", "bloom", "gemma3", "mixtral"])
def test_a_folder_gives_the_model_that_was_saved(tmp_path: Path, family: str) -> None:
    lm = load(save_tiny(tmp_path / "m", family))
    with torch.no_grad():
        assert torch.equal(lm.hf(IDS).logits, tiny(family)(IDS).logits)
    assert (lm.source.kind, lm.source.quantisation, lm.dtype, lm.device.type) == (
        "directory", None, torch.float32, "cpu"
    )  # fmt: skip
    assert not lm.hf.training
    assert not any(p.requires_grad for p in lm.hf.parameters())
    assert lm.tokenizer("The cat").input_ids == tiny_tokenizer()("The cat").input_ids
    assert lm.n_params == sum(p.numel() for p in tiny(family).parameters())


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_other_dtypes(tmp_path: Path, dtype: str) -> None:
    lm = load(save_tiny(tmp_path / "m", "mixtral"), dtype=dtype, device="auto")
    assert lm.dtype == getattr(torch, dtype)
    assert lm.norm_kind == "rmsnorm"


def test_loading_is_silent(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    load(folder)
    assert capfd.readouterr() == ("", "")


def test_a_split_model_is_measured_as_a_whole(folder: Path) -> None:
    split, whole = load(folder, device="split"), load(folder)
    assert torch.equal(split.hf(IDS).logits, whole.hf(IDS).logits)
    assert split.weights_digest == whole.weights_digest


def test_layers_offloaded_to_disk(tmp_path: Path, folder: Path) -> None:
    whole = load(folder)
    parts = {"model.embed_tokens": "cpu", "model.norm": "cpu", "lm_head": "cpu", "model.rotary_emb": "cpu"}
    parts |= {"model.layers.0": "cpu", "model.layers.1": "disk", "model.layers.2": "disk"}
    hf = accelerate.dispatch_model(tiny("llama"), parts, main_device="cpu", offload_dir=tmp_path / "offload")
    lm = LanguageModel(hf, name="offloaded")
    assert next(lm.blocks[1].parameters()).device.type == "meta"
    assert {s.name: s.available for s in lm.anatomy.sites.values()} == {
        s.name: s.available for s in whole.anatomy.sites.values()
    }
    assert lm.weights_digest == whole.weights_digest
    with whole.perturbed([1], "angular", 0.1):
        want = whole.hf(IDS).logits
    with lm.perturbed([1], "angular", 0.1):
        assert torch.allclose(lm.hf(IDS).logits, want, atol=1e-6)


def test_without_tokenizer_files_there_is_no_tokenizer(tmp_path: Path) -> None:
    lm = load(save_tiny(tmp_path / "m", "gpt2", tokenizer=False))
    assert lm.tokenizer is None
    assert lm.tokenizer_digest is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./not/here", "no such file or folder"),
        ("/not/here", "no such file or folder"),
        ("~/not/here/at-all", "no such file or folder"),
        ("not-here.gguf", "no such file"),
        ("twin-batchnorm", "no such twin"),
    ],
)
def test_names_of_nothing(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load(name)
    assert caught.value.exit_status == 2
    assert caught.value.where == name


def test_folders_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="folder is empty"):
        load(tmp_path)
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(UsageError, match=r"no config\.json"):
        load(tmp_path)
    (tmp_path / "m.Q4_1.gguf").write_bytes(b"GGUF")
    with pytest.raises(UsageError, match=r"Name the file itself: .*m\.Q4_1\.gguf"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("option", "value"), [("device", "tpu"), ("device", "mps"), ("dtype", "int8"), ("revision", "main")]
)
def test_options_that_are_not_possible(folder: Path, option: str, value: str) -> None:
    if value == "mps" and torch.backends.mps.is_available():
        pytest.skip("this machine has an mps device")
    with pytest.raises(UsageError):
        load(folder, **{option: value})


def refused(folder: Path, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        load(folder, **options)
    assert caught.value.exit_status == 3
    return str(caught.value)


def test_other_kinds_of_model(tmp_path: Path) -> None:
    bert = BertForMaskedLM(BertConfig(**SMALL, vocab_size=320))
    t5 = T5ForConditionalGeneration(T5Config(d_model=32, d_ff=64, num_layers=2, num_heads=4, d_kv=8, vocab_size=320))
    bart = BartForConditionalGeneration(
        BartConfig(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
                   encoder_ffn_dim=32, decoder_ffn_dim=32, vocab_size=320)
    )  # fmt: skip
    vit = ViTForImageClassification(ViTConfig(**SMALL, image_size=32, patch_size=8))
    kinds = {"encoder-only": bert, "sequence-to-sequence": t5, "sequence-to-sequence model (bart)": bart, "vision": vit}
    for i, (kind, model) in enumerate(kinds.items()):
        model.save_pretrained(tmp_path / str(i))
        assert kind in refused(tmp_path / str(i))


def test_unsupported_architectures(folder: Path) -> None:
    edit_config(folder, model_type="weird")
    assert "'weird' is not supported by transformers" in refused(folder)
    edit_config(folder, model_type=None)
    assert "without model_type" in refused(folder)


def test_code_of_its_own(folder: Path) -> None:
    edit_config(folder, model_type="weird", auto_map={"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"})
    (folder / "code.py").write_text("raise SystemExit('run')")
    assert "--trust-remote-code" in refused(folder)


def test_code_of_its_own_with_permission(folder: Path) -> None:
    edit_config(folder, model_type="own", auto_map={"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"})
    (folder / "code.py").write_text(
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "class C(LlamaConfig):\n    model_type = 'own'\n"
        "class M(LlamaForCausalLM):\n    config_class = C\n"
    )
    lm = load(folder, trust_remote_code=True)
    assert (lm.anatomy.family, lm.anatomy.known, lm.anatomy.wiring, lm.norm_kind) == (
        "own", False, "sequential", "rmsnorm"
    )  # fmt: skip
    assert torch.equal(lm.hf(IDS).logits, tiny("llama")(IDS).logits)


def test_damaged_configurations(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": ')
    assert "not valid JSON" in refused(folder)
    (folder / "config.json").write_text("[]")
    assert "not a JSON object" in refused(folder)


def test_a_configuration_without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "configuration but no weights" in refused(folder)


@pytest.mark.parametrize("share", [0.5, 0.99, 0.0])
def test_weights_cut_off(folder: Path, share: float) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: int(share * len(whole))])
    assert "weights cannot be read" in refused(folder)


def test_a_shard_is_missing(tmp_path: Path) -> None:
    tiny("llama").save_pretrained(tmp_path, max_shard_size="40KB")
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 2
    load(tmp_path)
    shards[1].unlink()
    assert "weights cannot be read" in refused(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_named(folder: Path, value: float) -> None:
    change_weights(folder, lambda w: w["model.layers.1.mlp.up_proj.weight"][3].index_fill_(0, torch.tensor([4]), value))
    assert "'model.layers.1.mlp.up_proj.weight'" in refused(folder)


def test_missing_weights_are_never_random(folder: Path) -> None:
    change_weights(folder, lambda w: w.pop("model.layers.1.mlp.up_proj.weight"))
    message = refused(folder)
    assert "lacks weights" in message
    assert "model.layers.1.mlp.up_proj.weight" in message


def test_weights_of_another_shape(folder: Path) -> None:
    change_weights(folder, lambda w: w.update({"model.norm.weight": torch.ones(16)}))
    assert "weights cannot be read" in refused(folder)


def test_pickled_weights_need_permission(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    assert "--trust-pickle" in refused(folder)
    assert torch.equal(load(folder, trust_pickle=True).hf(IDS).logits, tiny("llama")(IDS).logits)
    (folder / "pytorch_model.bin").rename(folder / "consolidated.pth")
    assert "format that cannot be read" in refused(folder, trust_pickle=True)


def test_safetensors_are_taken_where_there_are_pickles_too(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"not even a pickle")
    load(folder)
    load(folder, trust_pickle=True)


def test_a_damaged_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    assert "tokenizer cannot be read" in refused(folder)


def test_quantised_checkpoints_say_so(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert "quantization_config" not in config
    edit_config(folder, quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(ModelError):  # its package is not there, and nothing else is done instead
        load(folder)
