"""GGUF files: the model comes back, is marked as quantised, and damaged files are refused."""

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from polarlens.errors import ModelError, UsageError
from polarlens.models import load
from tiny import tiny, tiny_tokenizer

pytest.importorskip("accelerate")  # transformers reads no GGUF without it
IDS = torch.tensor([[5, 9, 11, 40]])
WIDTH = 64  # the stored blocks hold 32 numbers


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Query and key rows in the order that llama.cpp stores them."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def write(
    path: Path, stored: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32, *, scaled: bool = False
) -> dict[str, torch.Tensor]:
    """Write a tiny Llama as llama.cpp's converter would; returns the weights that should come back."""
    hf = tiny("llama", hidden_size=WIDTH, intermediate_size=64)
    writer = gguf.GGUFWriter(path, "llama")
    config, tokenizer = hf.config, tiny_tokenizer()
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(WIDTH // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    if scaled:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(4.0)
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    model = __import__("json").loads(tokenizer.backend_tokenizer.to_str())["model"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([token for token, _ in vocabulary])
    writer.add_token_types([gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (len(vocabulary) - 2))
    writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    back = {}
    for name, tensor in hf.state_dict().items():
        weight = tensor.numpy()
        kind = stored if weight.ndim == 2 else gguf.GGMLQuantizationType.F32
        packed = gguf.quants.quantize(weight, kind)
        back[name] = torch.from_numpy(np.array(gguf.quants.dequantize(packed, kind), dtype=np.float32))
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
        if heads:
            packed = gguf.quants.quantize(interleaved(weight, heads), kind)
        stem, suffix = name.rsplit(".", 1)
        writer.add_tensor(f"{names.get_name(stem)}.{suffix}", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return back


@pytest.mark.parametrize("stored", ["F32", "F16", "Q8_0"])
def test_the_weights_come_back_and_the_storage_is_named(tmp_path: Path, stored: str) -> None:
    path = tmp_path / "tiny.gguf"
    weights = write(path, gguf.GGMLQuantizationType[stored])
    lm = load(path)
    assert (lm.source.kind, lm.source.quantisation) == ("gguf", "Q8_0" if stored == "Q8_0" else None)
    assert lm.norm_kind == "rmsnorm"
    assert lm.dtype == torch.float32
    want = tiny("llama", hidden_size=WIDTH, intermediate_size=64)
    want.load_state_dict(weights)
    with torch.no_grad():
        assert torch.allclose(lm.hf(IDS).logits, want(IDS).logits, atol=1e-5)
    text = "The cats sleep, 1999."
    assert lm.tokenizer(text, add_special_tokens=False).input_ids == tiny_tokenizer()(text).input_ids
    assert (lm.tokenizer.bos_token, lm.tokenizer.eos_token) == ("<s>", "</s>")


def test_values_that_transformers_does_not_read_are_notes(tmp_path: Path) -> None:
    write(tmp_path / "plain.gguf")
    assert load(tmp_path / "plain.gguf").notes == ()
    write(tmp_path / "scaled.gguf", scaled=True)
    (note,) = load(tmp_path / "scaled.gguf").notes
    assert "scales the rotary positions" in note


def test_loading_is_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "tiny.gguf")
    load(tmp_path / "tiny.gguf")
    assert capfd.readouterr() == ("", "")


def test_not_a_gguf(tmp_path: Path) -> None:
    for name, content in (("a.gguf", b"hello world"), ("b.bin", b"PK\3\4"), ("c.gguf", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match="not a GGUF file"):
            load(tmp_path / name)


def test_cut_off_files(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write(path)
    whole = path.read_bytes()
    for size in (len(whole) - 1, len(whole) // 2):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelError, match=f"cut off: {size:,} bytes of {len(whole):,}"):
            load(path)
    for size in (4, 20, 100, 3000):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelError, match="damaged or cut off"):
            load(path)


def test_an_architecture_that_cannot_be_read(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "odd.gguf", "gptneox")
    writer.add_block_count(2)
    writer.add_tensor("output.weight", np.zeros((2, 2), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelError, match="'gptneox' is not supported"):
        load(tmp_path / "odd.gguf")
