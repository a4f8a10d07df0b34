"""Repair against forwards written by hand, and the identities that hold in every family, on a padded batch."""

from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from engine.made import LAYERS, PAIRS, TEXTS, WIDTH, condition, engine_of, state_of
from engine.oracle import noise_of, perturb_rows
from engine.repair_reference import HELD, repaired_run
from polarlens.engine.activations import Place
from polarlens.engine.batching import make_batch
from polarlens.engine.injection import injecting
from polarlens.engine.repair import REPAIRS, Repair, clean_activations, default_layers, planned, repaired
from polarlens.errors import SiteError, UsageError
from polarlens.models import FINAL_NORM, LanguageModel
from polarlens.models.attention import attention_by, plain
from polarlens.models.hooks import first_input, first_tensor
from polarlens.perturbation import MATCHED
from tiny import FAMILIES, tiny

OWN_ATTENTION = {"bloom", "gpt_neo", "mpt", "falcon-7b", "falcon-40b", "falcon-rw"}
NO_PRE_NORMS = {"opt-post_norm", "olmo2"}
IN_ATTENTION = {"attention-pattern", "attention-values", "attention-pattern+attention-values"}
# Norms (Gemma-2: softmax too) that compute in float32 in a float64 model.
FLOAT32 = {"llama", "mistral", "qwen2", "smollm3", "phi3", "qwen3", "gemma", "gemma2", "gemma3", "olmo", "olmo2",
           "cohere", "granite"}  # fmt: skip
ARMS = ("magnitude", "angular")


def tolerance(family):
    """Relative: float32 where the family computes in it; Mixtral's routing can flip on a rounding difference."""
    return 1e-3 if family == "mixtral" else 1e-6 if family in FLOAT32 else 1e-12


def model(family):
    """In float64 but for Mixtral, whose experts have no kernel for it."""
    hf = tiny(family)
    return LanguageModel(hf if family == "mixtral" else hf.double(), None, name=family)


@pytest.fixture(scope="module", params=FAMILIES)
def lm(request):
    return model(request.param)


def outcomes(engine, batch, names, conditions, layers=(1, 2), tokens=1):
    """(condition, repair name or None) -> nll per row; one condition at a time unless `tokens` says more."""
    perturbed = engine.protocol.layers
    repairs = [n if isinstance(n, Repair) else planned(n, layers, engine.lm.anatomy, perturbed) for n in names]
    clean, kept = clean_activations(engine, batch, repairs)
    found = {
        (c, r.name if r else None): outcome.nll
        for c, r, outcome in repaired(engine, batch, clean, kept, conditions, repairs, tokens)
    }
    return batch.sum_rows(clean.nll).numpy(), found


def available(lm):
    wanting = (IN_ATTENTION if lm.name in OWN_ATTENTION else set()) | (
        {"norm", "norm-scale"} if lm.name in NO_PRE_NORMS else set()
    )
    wanting |= {"final-norm-scale"} if lm.name == "opt-post_norm" else set()
    return [name for name in REPAIRS if name not in wanting]


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize("layers", [(1, 2), (2,)])
def test_every_repair_equals_a_forward_written_by_hand(family, layers):
    """Two perturbed layers, a padded batch, three conditions per stack; against one float64 forward per sequence."""
    lm = LanguageModel(tiny(family), None, name=family)
    engine, batch = engine_of(lm, (0, 1)), make_batch(TEXTS, has_bos=True)
    cs = [condition(arm, 0.3, seed=seed) for arm in ARMS for seed in (0, 1)]
    clean_nll, got = outcomes(engine, batch, list(REPAIRS), cs, layers, tokens=3 * batch.ids.numel())
    moved = dict.fromkeys(REPAIRS, 0.0)
    for c in cs:
        for row, item in enumerate(TEXTS):
            ids = item.sequences[0]
            part = np.ones(len(ids), dtype=bool)
            draws = {n: noise_of(MATCHED, c.arm, c.seed, n, item.noise[0], WIDTH) for n in (0, 1)}
            edits = {n: perturb_rows(c.arm, 0.3, "relative", drawn, 1, part) for n, drawn in draws.items()}
            for name in REPAIRS:
                clean, dirty, want = repaired_run(lm.hf, ids, edits, name, layers)
                assert clean_nll[row] == pytest.approx(clean.nll.sum(), rel=2e-5)
                assert got[c, None][row] == pytest.approx(dirty.nll.sum(), rel=2e-5)
                assert got[c, name][row] == pytest.approx(want.nll.sum(), rel=2e-5), (name, c)
                moved[name] = max(moved[name], abs(want.nll.sum() - dirty.nll.sum()))
    assert set(HELD) == set(REPAIRS)
    assert min(moved.values()) > 1e-2  # every repair does something here


def test_nothing_perturbed_is_the_clean_run_bit_by_bit(lm):
    engine, batch = engine_of(lm, (0, 1)), make_batch(TEXTS, has_bos=True)
    names = available(lm)
    clean, got = outcomes(engine, batch, names, [condition("angular", 0.0)])
    for (_, name), nll in got.items():
        if name in IN_ATTENTION:
            np.testing.assert_allclose(nll, clean, rtol=1e-6)
        else:
            assert nll.tolist() == clean.tolist(), name
    if lm.name in OWN_ATTENTION:
        return
    start = engine.clean(batch)
    with attention_by(lm.hf, plain):  # against the same attention function bit by bit too
        clean = engine.control(batch, start).nll.tolist()
    assert all(nll.tolist() == clean for (_, name), nll in got.items() if name in IN_ATTENTION)


def test_norm_repair_is_attention_and_mlp_repair(lm):
    if lm.name in NO_PRE_NORMS:
        pytest.skip("no norm before attention and MLP")
    engine, batch = engine_of(lm, (0, 1)), make_batch(TEXTS, has_bos=True)
    cs = [condition(arm, 0.3, sign=s) for arm in ARMS for s in (1, -1)]
    clean, got = outcomes(engine, batch, ["norm", "attention+mlp"], cs, tokens=10_000)
    for c in cs:
        np.testing.assert_allclose(got[c, "norm"], got[c, "attention+mlp"], rtol=tolerance(lm.name))
        assert abs(got[c, "norm"] - got[c, None]).max() > 1e-4 * abs(clean).max()


def test_pattern_and_values_are_the_attention(lm):
    if lm.name in OWN_ATTENTION:
        pytest.skip("computes attention itself")
    engine, batch = engine_of(lm, (0,)), make_batch(TEXTS, has_bos=True)
    cs = [condition(arm, 0.3) for arm in ARMS]
    _, got = outcomes(engine, batch, [*sorted(IN_ATTENTION), "attention"], cs, tokens=10_000)
    for c in cs:
        both = got[c, "attention-pattern+attention-values"]
        np.testing.assert_allclose(both, got[c, "attention"], rtol=tolerance(lm.name))
        for name in ("attention-pattern", "attention-values"):
            assert abs(got[c, name] - both).max() > 1e-3


@contextmanager
def seen(module, *, inputs=False):
    """The states a module returns (or reads) while the context is open, after all other hooks."""
    found = []

    def hook(_, args, kwargs, output):
        found.append((first_input(args, kwargs) if inputs else first_tensor(output)).double().clone())

    handle = module.register_forward_hook(hook, with_kwargs=True)
    try:
        yield found
    finally:
        handle.remove()


def watched(engine, batch, c, name, module, layers=(1, 2)):
    """(clean, repaired) output of `module`, (B, T, d)."""
    plan = planned(name, layers, engine.lm.anatomy, engine.protocol.layers)
    with seen(module) as before:
        clean, kept = clean_activations(engine, batch, [plan])
    (stack,) = engine.stacks(batch, clean, [c], 1)
    with ExitStack() as hooks:
        after = []

        @contextmanager
        def around():
            with injecting(engine.lm, plan.places, kept), seen(module) as found:
                yield
                after.extend(found)

        engine.run(batch, clean, stack, around())
        del hooks
    return before[0], after[0]


@pytest.mark.parametrize("arm", ARMS)
def test_with_every_contribution_clean_the_injected_difference_is_all_that_is_left(lm, arm):
    if lm.anatomy.wiring == "post-norm":
        pytest.skip("the stream is normed")
    engine, batch, c = engine_of(lm, (0,)), make_batch(TEXTS, has_bos=True), condition(arm, 0.3)
    clean_first, first = watched(engine, batch, c, "attention+mlp", lm.blocks[0])
    clean_last, last = watched(engine, batch, c, "attention+mlp", lm.blocks[2])
    injected, left = first - clean_first, last - clean_last
    real = batch.mask.bool()
    assert injected[real].norm(dim=-1).min() > 0.1
    gap = (left - injected)[real].norm(dim=-1) / injected[real].norm(dim=-1)
    assert gap.max() < (1e-5 if lm.name == "mixtral" else 1e-12)


def without_epsilon(lm, monkeypatch):
    """Every norm's epsilon at 0, wherever the family keeps it."""
    for module in lm.hf.modules():
        for name in ("eps", "variance_epsilon"):
            if isinstance(getattr(module, name, None), float):
                monkeypatch.setattr(module, name, 0.0)
    own = functional.layer_norm
    monkeypatch.setattr(functional, "layer_norm", lambda x, shape, w=None, b=None, eps=0.0, **k: own(
        x, shape, k.get("weight", w), k.get("bias", b), 0.0))  # fmt: skip


def test_scaling_the_last_blocks_output_changes_nothing(lm, monkeypatch):
    if lm.anatomy.final_norm is None:
        pytest.skip("no final norm")
    without_epsilon(lm, monkeypatch)
    engine, batch = engine_of(lm, (LAYERS - 1,)), make_batch(TEXTS, has_bos=True)
    clean = engine.clean(batch)
    for c, outcome in engine.perturbed(batch, clean, [condition(arm, 0.3) for arm in ARMS], 1):
        same = np.isclose(outcome.nll, batch.sum_rows(clean.nll), rtol=tolerance(lm.name))
        assert same.all() if c.arm == "magnitude" else not same.any()


def test_the_next_attention_does_not_see_the_length(lm, monkeypatch):
    if lm.name in NO_PRE_NORMS:
        pytest.skip("attention reads the stream itself")
    without_epsilon(lm, monkeypatch)
    engine, batch = engine_of(lm, (0,)), make_batch(TEXTS, has_bos=True)
    cs = [condition(arm, 0.3) for arm in ARMS]
    _, got = outcomes(engine, batch, ["attention"], cs, layers=(1,), tokens=10_000)
    magnitude, angular = cs
    np.testing.assert_allclose(got[magnitude, "attention"], got[magnitude, None], rtol=tolerance(lm.name))
    assert abs(got[angular, "attention"] - got[angular, None]).max() > 1e-3


def test_a_clean_scale_lets_the_length_through(lm):
    """After a magnitude perturbation the next norm's output, but for its bias, is longer by exactly alpha."""
    if lm.name in NO_PRE_NORMS:
        pytest.skip("no norm before the attention")
    engine, batch = engine_of(lm, (0,)), make_batch(TEXTS, has_bos=True)
    c, norm = condition("magnitude", 0.3), lm.anatomy.blocks[1].pre_attention_norm
    clean, scaled = watched(engine, batch, c, "norm-scale", norm, layers=(1,))
    bias = getattr(norm, "bias", None)
    bias = 0.0 if bias is None else bias.double()
    before, after = ((t.reshape(*batch.shape, WIDTH) - bias)[batch.mask.bool()] for t in (clean, scaled))
    signs = np.concatenate([noise_of(MATCHED, "magnitude", 0, 0, item.noise[0], WIDTH) for item in TEXTS])
    alpha = torch.from_numpy(1 + 0.3 * signs)[:, None]
    assert set(signs.tolist()) == {1, -1}
    gap = (after - alpha * before).norm(dim=-1) / before.norm(dim=-1)
    assert gap.max() < (2e-6 if lm.name in FLOAT32 or lm.name == "mixtral" else 1e-12)


def test_the_clean_final_norm_gives_everything_back(lm):
    if lm.anatomy.final_norm is None:
        pytest.skip("no final norm")
    engine, batch = engine_of(lm, (0, 1)), make_batch(TEXTS, has_bos=True)
    whole = Repair("final-norm", (), (Place(None, FINAL_NORM),))
    cs = [condition(arm, 0.3) for arm in ARMS]
    clean, got = outcomes(engine, batch, [whole], cs)
    for c in cs:
        assert got[c, "final-norm"].tolist() == clean.tolist()  # so recovery is exactly 1
        assert (abs(got[c, None] - clean) > 1e-3).all()


@pytest.mark.parametrize(("family", "silent", "part"), [
    ("llama", "attention", "o_proj"), ("gpt2", "attention", "attn.c_proj"), ("bloom", "attention", "dense"),
    ("llama", "mlp", "down_proj"), ("gpt2", "mlp", "mlp.c_proj"), ("mpt", "mlp", "down_proj"),
    ("falcon-7b", "mlp", "dense_4h_to_h"), ("granite", "attention", "o_proj"), ("gemma2", "attention", "o_proj"),
])  # fmt: skip
def test_a_planted_model_whose_whole_damage_flows_through_one_path(family, silent, part):
    """With one of attention and MLP adding nothing, its repair does nothing and the other's does all."""
    hf = tiny(family)
    with torch.no_grad():
        for name, parameter in hf.named_parameters():
            inside = f".{part}." in name and not (family == "bloom" and "mlp" in name)
            if inside or (family == "gemma2" and "post_attention_layernorm" in name):
                parameter.zero_() if inside else parameter.fill_(0.7)
    lm = LanguageModel(hf, None, name=family)
    engine, batch = engine_of(lm, (0,)), make_batch(TEXTS, has_bos=True)
    other = "mlp" if silent == "attention" else "attention"
    cs = [condition(arm, 0.3) for arm in ARMS]
    _, got = outcomes(engine, batch, ["attention", "mlp", "attention+mlp"], cs)
    for c in cs:
        np.testing.assert_allclose(got[c, silent], got[c, None], rtol=1e-6)
        np.testing.assert_allclose(got[c, other], got[c, "attention+mlp"], rtol=1e-6)
        assert abs(got[c, other] - got[c, None]).max() > 1e-3


@pytest.mark.parametrize("family", ["gpt2", "llama", "bloom", "opt", "falcon-40b", "gemma3"])
def test_stacking_padding_and_the_other_repairs_change_nothing(family):
    lm = LanguageModel(tiny(family), None, name=family)
    engine = engine_of(lm, (0, 1))
    cs = [condition(arm, 0.3, seed=seed, sign=s) for arm in ARMS for seed in (0, 1) for s in (1, -1)]
    names = available(lm)
    _, together = outcomes(engine, make_batch(TEXTS, has_bos=True), names, cs, tokens=10_000)
    for row, item in enumerate(TEXTS[:2]):
        for name in names:
            _, alone = outcomes(engine, make_batch([item], has_bos=True), [name], cs[::3])
            for c in cs[::3]:
                assert alone[c, name][0] == pytest.approx(together[c, name][row], rel=1e-5), (name, c)
                assert alone[c, None][0] == pytest.approx(together[c, None][row], rel=1e-5)


def test_members_of_pairs_are_rows_like_any_other():
    lm = LanguageModel(tiny("llama"), None, name="llama")
    engine, batch = engine_of(lm, (0,)), make_batch(PAIRS, has_bos=True)
    _, got = outcomes(engine, batch, ["attention", "norm", "attention+mlp"], [condition("angular", 0.3)])
    c = condition("angular", 0.3)
    assert got[c, "norm"].shape == (4,)
    np.testing.assert_allclose(got[c, "norm"], got[c, "attention+mlp"], rtol=1e-5)
    assert (abs(got[c, "attention"] - got[c, None]) > 1e-4).all()


def test_what_is_measured_of_the_perturbation_is_the_same_under_every_repair():
    lm = LanguageModel(tiny("gpt2"), None, name="gpt2")
    engine, batch = engine_of(lm, (0,)), make_batch(TEXTS, has_bos=True)
    repairs = [planned(n, (1,), lm.anatomy, (0,)) for n in REPAIRS]
    clean, kept = clean_activations(engine, batch, repairs)
    sums = [
        outcome.realised.first_sum.tolist()
        for _, _, outcome in repaired(engine, batch, clean, kept, [condition("angular", 0.3)], repairs, 1)
    ]
    assert len(sums) == len(REPAIRS) + 1
    assert all(s == sums[0] for s in sums)
    assert min(sums[0]) > 0


def test_kl_is_that_of_the_repaired_run():
    lm = LanguageModel(tiny("gpt2"), None, name="gpt2")
    engine, batch = engine_of(lm, (0,), kl=True), make_batch(TEXTS, has_bos=True)
    plan = planned("norm", (1, 2), lm.anatomy, (0,))
    clean, kept = clean_activations(engine, batch, [plan])
    c = condition("angular", 0.3)
    (bare, fixed) = (o for _, _, o in repaired(engine, batch, clean, kept, [c], [plan], 1))
    assert 0 < fixed.kl.sum() < bare.kl.sum()


class Boom(Exception):
    pass


@pytest.mark.parametrize("error", [None, Boom, KeyboardInterrupt])
def test_the_model_is_restored_after_success_and_failure(error):
    lm = LanguageModel(tiny("bloom"), None, name="bloom") if error is None else LanguageModel(tiny("gpt2"), None)
    ids = torch.tensor([TEXTS[0].sequences[0]])
    lm.blocks[1].register_forward_hook(lambda *_: None)  # the caller's own hook stays
    before, logits = state_of(lm), lm.hf(input_ids=ids).logits
    engine, batch = engine_of(lm, (0,)), make_batch(TEXTS, has_bos=True)
    names = ["attention+mlp", "norm-scale"] if error is None else list(REPAIRS)
    calls = []

    def fail(*_):
        calls.append(1)
        if len(calls) > 4:
            raise error

    handle = lm.blocks[2].register_forward_hook(fail) if error else None
    if error is None:
        outcomes(engine, batch, names, [condition("angular", 0.3)])
    else:
        for name in names:
            calls.clear()
            calls.extend([1] * (3 if name in IN_ATTENTION else 2))
            with pytest.raises(error):
                outcomes(engine, batch, [name], [condition("angular", 0.3, seed=s) for s in (0, 1)])
        handle.remove()
    assert state_of(lm) == before
    assert torch.equal(lm.hf(input_ids=ids).logits, logits)


def test_sites_that_a_family_lacks(lm):
    there = available(lm)
    for name in REPAIRS:
        if name in there:
            plan = planned(name, (1, 2), lm.anatomy, (0,))
            assert plan.layers == (() if name == "final-norm-scale" else (1, 2))
        else:
            with pytest.raises(SiteError, match="is not available in this model"):
                planned(name, (1, 2), lm.anatomy, (0,))
    one_norm = {"gptj", "codegen", "falcon-7b", "phi", "cohere", "stablelm-parallel"}
    if lm.name not in NO_PRE_NORMS:
        held = planned("norm", (1, 2), lm.anatomy, (0,)).places
        assert len(held) == (2 if lm.name in one_norm else 4)


def test_norms_of_no_known_kind_have_no_scale():
    anatomy = replace(LanguageModel(tiny("gpt2"), None).anatomy, norm_kind="unknown")
    with pytest.raises(SiteError, match="neither layer norms nor RMS norms"):
        planned("norm-scale", (1,), anatomy, (0,))
    assert planned("norm", (1,), anatomy, (0,)).layers == (1,)


@pytest.mark.parametrize(("name", "layers", "perturbed", "message"), [
    ("attention", (0, 2), (1,), "nothing can differ from the clean run in block 0, below the first perturbed block 1"),
    ("mlp", (1,), (1,), "nothing can differ from the clean run before the output of the first perturbed block 1"),
    ("norm", (), (1,), "nothing can differ"),
    ("norm", (2,), (2,), "Perturb a block that has others above it"),
    ("attention", (1, 3), (0,), "block 3 is not in this model, whose 3 blocks are 0 to 2"),
    ("attenton", (1,), (0,), "'attenton' is not a repair.*nearest known one is attention"),
    ("normscale", (1,), (0,), "nearest known one is norm-scale"),
])  # fmt: skip
def test_what_cannot_be_repaired(name, layers, perturbed, message):
    anatomy = LanguageModel(tiny("gpt2"), None).anatomy
    with pytest.raises(UsageError, match=message):
        planned(name, layers, anatomy, perturbed)


def test_layers_by_default_and_the_first_perturbed_one_among_others():
    assert default_layers((8, 9, 10), 24) == (9, 10)
    assert default_layers((4,), 7) == (5, 6)
    assert default_layers((6,), 7) == ()
    anatomy = LanguageModel(tiny("gpt2"), None).anatomy
    plan = planned("attention", (1, 2), anatomy, (1, 2))
    assert plan.layers == (1, 2)
    assert {place.layer for place in plan.places} == {2}
    assert planned("final-norm-scale", (), anatomy, (2,)).places == (Place(None, "scale of the final norm output"),)


def test_what_a_repair_does_not_change_or_need_is_not_run():
    """A repaired pass starts below its lowest layer; modules whose output is put back are not run."""
    lm, calls = model("llama"), set()
    names = {"q_proj": "attention", "gate_proj": "mlp", "input_layernorm": "norm"}
    for n, block in enumerate(lm.blocks):
        for path, module in block.named_modules():
            if part := names.get(path.rpartition(".")[2]):
                module.register_forward_pre_hook(lambda *_, key=(n, part): calls.add(key))
    engine, batch, last = engine_of(lm, (0, 1)), make_batch(TEXTS, has_bos=True), LAYERS - 1
    for name, runs in (
        ("final-norm-scale", set()),
        ("attention", {(last, "norm"), (last, "mlp")}),
        ("attention+mlp", {(last, "norm")}),
        ("attention-values", {(last, part) for part in names.values()}),
    ):
        repair = planned(name, (last,), lm.anatomy, (0, 1))
        clean, kept = clean_activations(engine, batch, [repair])
        ran = []
        calls.clear()
        for _ in repaired(engine, batch, clean, kept, [condition("angular", 0.3)], [repair], 10_000):
            ran.append(set(calls))
            calls.clear()
        assert ran == [{(n, part) for n in range(1, LAYERS) for part in names.values()}, runs]
