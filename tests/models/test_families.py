"""Every family: what is found in it, against a table; what its sites hold, against models with a part switched off."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polarlens.errors import SiteError
from polarlens.models import ATTENTION, BLOCK_OUTPUT, FINAL_NORM, MLP, PATTERN, PRE_ATTENTION_NORM, PRE_MLP_NORM, SITES
from polarlens.models import families as records
from polarlens.models.anatomy import Block
from polarlens.models.language_model import LanguageModel
from tiny import FAMILIES, tiny

IDS = torch.tensor([[5, 9, 11, 40, 200, 31, 7], [6, 9, 250, 41, 12, 13, 30]])

# What is not listed: sequential wiring, layer norms, a tensor returned, all sites there.
TUPLES = {"gpt_neo", "bloom", "falcon-7b", "falcon-40b", "falcon-rw", "mpt"}
PARALLEL = {"gptj", "codegen", "gpt_neox", "falcon-7b", "falcon-40b", "phi", "cohere", "stablelm-parallel"}
WIRING = {"opt-post_norm": "post-norm", "gemma2": "sandwich", "gemma3": "sandwich", "olmo2": "sublayer-post-norm"}
RMS = {
    "llama",
    "mistral",
    "qwen2",
    "smollm3",
    "phi3",
    "qwen3",
    "mixtral",
    "gemma",
    "gemma2",
    "gemma3",
    "olmo2",
    "granite",
}
ONE_NORM = PARALLEL - {"gpt_neox", "falcon-40b"}
NO_PRE_NORMS = {"opt-post_norm", "olmo2"}
OWN_ATTENTION = {"bloom", "gpt_neo", "mpt", "falcon-7b", "falcon-40b", "falcon-rw"}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> tuple[str, LanguageModel]:
    return request.param, LanguageModel(tiny(request.param), name=request.param)


def test_record_wiring_norms_and_containers(family: tuple[str, LanguageModel]) -> None:
    name, lm = family
    assert lm.anatomy.known
    assert lm.anatomy.wiring == ("parallel" if name in PARALLEL else WIRING.get(name, "sequential"))
    assert lm.norm_kind == ("rmsnorm" if name in RMS else "layernorm")
    assert lm.anatomy.returns_tuple == (name in TUPLES,) * 3
    assert (lm.n_layers, lm.width, lm.window) == (3, 32, None if name == "bloom" else 128)


def test_sites(family: tuple[str, LanguageModel]) -> None:
    name, lm = family
    missing = set()
    if name in ONE_NORM:
        missing |= {PRE_MLP_NORM}
    if name in NO_PRE_NORMS:
        missing |= {PRE_ATTENTION_NORM, PRE_MLP_NORM}
    if name == "opt-post_norm":
        missing |= {FINAL_NORM}
    if name in OWN_ATTENTION:
        missing |= {PATTERN}
    assert {site for site in SITES if not lm.anatomy.sites[site].available} == missing
    for site in missing:
        with pytest.raises(SiteError, match=site):
            lm.anatomy.require(site)
    for site in set(SITES) - missing:
        assert lm.anatomy.require(site).error <= 1e-5


def first(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


@contextmanager
def silenced(block: Block, site: str) -> Iterator[None]:
    """The contribution of `site` replaced by zeros, through the block's accessors."""
    seen: dict[str, Tensor] = {}

    def keep_input(_: nn.Module, args: Any, kwargs: Any) -> None:
        seen["x"] = (args[0] if args else kwargs["hidden_states"]).clone()

    def keep_attention(_: nn.Module, __: Any, output: Any) -> None:
        seen["a"] = block.contribution(ATTENTION, first(output), seen["x"])

    def replace(_: nn.Module, __: Any, output: Any) -> Any:
        raw = block.raw(site, torch.zeros_like(seen["x"]), seen["x"], seen.get("a")).reshape(first(output).shape)
        return (raw, *output[1:]) if isinstance(output, tuple) else raw

    with ExitStack() as stack:
        stack.callback(block.module.register_forward_pre_hook(keep_input, with_kwargs=True).remove)
        if site == MLP:
            stack.callback(block.source(ATTENTION).register_forward_hook(keep_attention).remove)
        stack.callback(block.source(site).register_forward_hook(replace).remove)
        yield


def switched_off(name: str, site: str) -> Any:
    """The same model with the last linear map of block 1's attention or MLP set to zero, found by its usual names."""
    hf = tiny(name)
    lists = [m for m in hf.modules() if isinstance(m, nn.ModuleList) and len(m) == 3]
    block = max(lists, key=lambda m: sum(p.numel() for p in m.parameters()))[1]
    ends = {
        ATTENTION: ("attn.c_proj", "attn.attention.out_proj", "attn.out_proj", "attention.dense", "self_attn.out_proj",
                    "self_attention.dense", "self_attn.o_proj", "self_attn.dense"),
        MLP: ("mlp.c_proj", "mlp.fc_out", "mlp.dense_4h_to_h", "fc2", "ffn.down_proj", "mlp.down_proj", "mlp.fc2",
              "mlp.experts"),
    }[site]  # fmt: skip
    modules = dict(block.named_modules())
    last = next(modules[end] for end in ends if end in modules)
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.zero_()
    return hf


@pytest.mark.parametrize("site", [ATTENTION, MLP])
def test_a_contribution_of_zero_is_the_part_switched_off(family: tuple[str, LanguageModel], site: str) -> None:
    name, lm = family
    site_off = switched_off(name, site)
    with torch.no_grad(), silenced(lm.anatomy.blocks[1], site):
        got = lm.hf(IDS, use_cache=False).logits
    with torch.no_grad():
        want, clean = site_off(IDS, use_cache=False).logits, lm.hf(IDS, use_cache=False).logits
    assert torch.allclose(got, want, atol=2e-5 * float(want.abs().max()))
    assert (clean - want).abs().max() > 1e-2 * want.abs().max()  # the part matters, so the test can fail


def test_contributions_add_up_in_float64(family: tuple[str, LanguageModel]) -> None:
    name, _ = family
    options = {"experts_implementation": "eager"} if name == "mixtral" else {}
    lm = LanguageModel(tiny(name, **options).double(), name=name)
    assert lm.anatomy.require(ATTENTION).error <= 1e-6
    assert lm.anatomy.require(BLOCK_OUTPUT).error == 0


# Families whose blocks have no unusual form are found without a record; the others keep their block outputs only.
@pytest.mark.parametrize("name", FAMILIES)
def test_discovery_without_a_record(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = LanguageModel(tiny(name), name=name).anatomy
    monkeypatch.setattr(records, "FAMILIES", {})
    found = LanguageModel(tiny(name), name=name).anatomy
    assert not found.known
    assert found.require(BLOCK_OUTPUT).available
    assert found.norm_kind == known.norm_kind
    assert found.returns_tuple == known.returns_tuple
    if name in {"bloom", "mpt", "opt-post_norm", "granite"}:  # residual, norm or multiplier inside: not guessed
        assert found.wiring == "unknown"
        with pytest.raises(SiteError, match="told apart"):
            found.require(ATTENTION)
    else:
        assert found.wiring == known.wiring
        assert {s: found.sites[s].available for s in SITES} == {s: known.sites[s].available for s in SITES}


def test_sandwich_norms_by_role_not_by_name() -> None:
    lm = LanguageModel(tiny("gemma2"), name="gemma2")
    block, module = lm.anatomy.blocks[0], lm.blocks[0]
    assert block.source(PRE_MLP_NORM) is module.pre_feedforward_layernorm
    assert block.source(ATTENTION) is module.post_attention_layernorm
    raw: list[Tensor] = []
    with ExitStack() as stack:
        for part in (module.self_attn, module.mlp, module):
            stack.callback(part.register_forward_hook(lambda _, __, out: raw.append(first(out).clone())).remove)
        stack.callback(module.register_forward_pre_hook(lambda _, args: raw.append(args[0].clone())).remove)
        with torch.no_grad():
            lm.hf(IDS)
    x, attention, mlp, y = raw
    assert (x + attention + mlp - y).norm() > 0.1 * y.norm()  # the modules' own outputs do not add up


def test_bloom_without_the_stream_as_residual_is_refused_not_guessed() -> None:
    lm = LanguageModel(tiny("bloom", apply_residual_connection_post_layernorm=True), name="odd-bloom")
    assert lm.anatomy.require(BLOCK_OUTPUT).available
    with pytest.raises(SiteError, match="something else than the residual stream"):
        lm.anatomy.require(ATTENTION)


def test_falcon_with_one_norm_in_the_new_layout() -> None:
    lm = LanguageModel(tiny("falcon-40b", num_ln_in_parallel_attn=1), name="falcon-11b")
    assert lm.anatomy.wiring == "parallel"
    with pytest.raises(SiteError, match="behind one norm"):
        lm.anatomy.require(PRE_MLP_NORM)


def test_an_unknown_site_names_the_known_ones() -> None:
    with pytest.raises(SiteError, match="attention contribution"):
        LanguageModel(tiny("gpt2"), name="gpt2").anatomy.require("attn_out")
