"""BOS policies, digests, reports: what identifies and describes a model."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from tokenizers.processors import TemplateProcessing

from polarlens.errors import UsageError
from polarlens.models import SITES, BosPolicy, LanguageModel, check, encode, load, resolve_bos
from tiny import save_tiny, tiny, tiny_tokenizer


@pytest.mark.parametrize(
    ("bos", "eos", "requested", "policy"),
    [
        ("<s>", "</s>", "auto", BosPolicy("auto", "<s>", 0, "bos")),
        (None, "</s>", "auto", BosPolicy("auto", "</s>", 1, "eos")),
        ("<s>", "</s>", "none", BosPolicy("none", None, None, "none")),
        ("<s>", "</s>", "</s>", BosPolicy("</s>", "</s>", 1, "given")),
        ("<s>", "</s>", "!", BosPolicy("!", "!", 2, "given")),
    ],
)
def test_bos_policies(bos: str | None, eos: str | None, requested: str, policy: BosPolicy) -> None:
    assert resolve_bos(tiny_tokenizer(bos=bos, eos=eos), requested) == policy


def test_bos_tokens_that_do_not_exist() -> None:
    with pytest.raises(UsageError, match="'<bos>' is not a token"):
        resolve_bos(tiny_tokenizer(), "<bos>")
    with pytest.raises(UsageError, match="neither a BOS nor an EOS"):
        resolve_bos(tiny_tokenizer(bos=None, eos=None), "auto")
    with pytest.raises(UsageError, match="no tokenizer"):
        resolve_bos(None, "auto")
    assert resolve_bos(None, "none").id is None


def test_encoding_adds_no_special_tokens() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    assert tokenizer("The cat").input_ids[0] == 0
    ids = encode(tokenizer, "The cat")
    assert ids == tokenizer("The cat").input_ids[1:-1]
    assert tokenizer.decode(ids) == "The cat"


def test_weights_digest_is_over_name_dtype_shape_and_bytes() -> None:
    lm = LanguageModel(tiny("gpt2"))
    want = hashlib.sha256()
    for name in sorted(lm.hf.state_dict()):
        tensor = lm.hf.state_dict()[name]
        want.update(f"{name}\0torch.float32\0{tuple(tensor.shape)}\0".encode() + tensor.numpy().tobytes())
    assert lm.weights_digest == want.hexdigest()


def test_weights_digests_tell_models_apart(tmp_path: Path) -> None:
    base = LanguageModel(tiny("gpt2")).weights_digest
    assert LanguageModel(tiny("gpt2")).weights_digest == base
    assert load(save_tiny(tmp_path / "m", "gpt2")).weights_digest == base
    assert LanguageModel(tiny("gpt2", seed=1)).weights_digest != base
    assert LanguageModel(tiny("gpt2").bfloat16()).weights_digest != base
    nudged = tiny("gpt2")
    with torch.no_grad():
        flat = nudged.transformer.h[2].mlp.c_fc.bias.view(torch.int32)
        flat[7] ^= 1  # the last bit of one number
    assert LanguageModel(nudged).weights_digest != base


def test_tokenizer_digests_tell_tokenizers_apart(tmp_path: Path) -> None:
    def digest(tokenizer: object) -> str | None:
        return LanguageModel(tiny("gpt2"), tokenizer).tokenizer_digest

    base = digest(tiny_tokenizer())
    assert load(save_tiny(tmp_path / "m", "gpt2")).tokenizer_digest == base
    assert len({base, digest(tiny_tokenizer(290)), digest(tiny_tokenizer(bos="</s>")), digest(None)}) == 4


def test_the_report_is_plain_data_and_text(tmp_path: Path) -> None:
    lm = load(save_tiny(tmp_path / "m", "falcon-7b"))
    report = check(lm)
    data = json.loads(json.dumps(report.as_dict()))
    assert data["family"] == "falcon"
    assert (data["record"], data["wiring"], data["norm_kind"]) == ("family record", "parallel", "layernorm")
    sizes = {"n_layers": 3, "width": 32, "vocabulary": 320, "tokenizer_size": 300, "window": 128}
    assert {name: data[name] for name in sizes} == sizes
    assert data["bos"] == {"requested": "auto", "token": "<s>", "id": 0, "origin": "bos"}
    assert (data["dtype"], data["device"], data["returns_tuple"]) == ("float32", "cpu", True)
    sites = {site["name"]: site for site in data["sites"]}
    assert list(sites) == list(SITES)
    assert sites["mlp contribution"]["available"]
    assert sites["mlp contribution"]["error"] <= 1e-5
    assert not sites["pre-mlp norm output"]["available"]
    assert "behind one norm" in sites["pre-mlp norm output"]["how"]
    text = str(report)
    assert all(site in text for site in SITES)
    assert "parallel" in text
    assert "<s> (bos)" in text


def test_a_report_without_a_tokenizer() -> None:
    report = check(LanguageModel(tiny("bloom")))
    assert (report.bos, report.tokenizer_size, report.window) == (None, None, None)
    assert "no limit" in str(report)


def test_what_a_model_shows_of_itself() -> None:
    lm = LanguageModel(tiny("olmo2"), tiny_tokenizer(), name="a<b")
    assert "sublayer-post-norm wiring, rmsnorm" in repr(lm)
    assert "pre-mlp norm output (the MLP reads the residual stream itself" in repr(lm)
    assert "a&lt;b" in lm._repr_html_()


def test_random_ids_stay_below_the_tokenizers_size() -> None:
    hf = tiny("gpt2")
    seen: list[torch.Tensor] = []
    hf.get_input_embeddings().register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    LanguageModel(hf, tiny_tokenizer(260))
    assert max(int(ids.max()) for ids in seen) < 260
    assert not any((ids == 1).any() for ids in seen)  # neither padding nor EOS
