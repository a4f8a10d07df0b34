"""Propagation against full forwards with plain hooks and against closed forms, in every family, on a padded batch."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import rel_entr
from scipy.stats import entropy as scipy_entropy

from engine.made import LAYERS, TEXTS, WIDTH, condition, engine_of, state_of
from engine.oracle import noise_of, perturb_rows
from engine.repair_reference import Run, settings
from engine.test_repair import FLOAT32, Boom, model
from polarlens.engine.batching import make_batch
from polarlens.engine.conditions import Protocol
from polarlens.engine.divergence import entropy, gap, jensen_shannon
from polarlens.engine.engine import Engine
from polarlens.engine.propagation import NORMS, propagated
from polarlens.engine.weights import watching_weights, weights_refused
from polarlens.errors import SiteError, UsageError
from polarlens.models import LanguageModel
from polarlens.models.hooks import first_tensor
from polarlens.models.norms import constants_of, statistic
from polarlens.perturbation import MATCHED
from tiny import FAMILIES, tiny

ARMS = ("magnitude", "angular")


@pytest.fixture(scope="module", params=FAMILIES)
def lm(request):
    return model(request.param)


def states(lm, ids, edit=None, layer=0):
    """Outputs of all blocks (LAYERS, T, d) of a full forward of one sequence, block `layer` edited."""
    found = {}

    def keep(n):
        def hook(_, __, output):
            hidden = first_tensor(output)[0].double().numpy()
            if edit is not None and n == layer:
                hidden = edit(hidden)
                changed = torch.from_numpy(hidden).to(first_tensor(output).dtype)[None]
                found[n] = changed[0].double().numpy()
                return (changed, *output[1:]) if isinstance(output, tuple) else changed
            found[n] = hidden.copy()
            return output

        return hook

    handles = [block.register_forward_hook(keep(n)) for n, block in enumerate(lm.blocks)]
    with torch.no_grad():
        lm.hf(input_ids=torch.tensor([ids]), use_cache=False)
    for handle in handles:
        handle.remove()
    return np.stack([found[n] for n in range(LAYERS)])


@pytest.mark.parametrize("first", [0, 1])
def test_distances_equal_those_of_full_forwards(lm, first):
    engine, batch = engine_of(lm, (first,)), make_batch(TEXTS, has_bos=True)
    cs = [condition(arm, 0.3, seed=s) for arm in ARMS for s in (0, 1)]
    got = dict(propagated(engine, batch, cs, 3 * batch.ids.numel(), attention=False))
    for row, item in enumerate(TEXTS):
        ids = item.sequences[0]
        clean = states(lm, ids)
        for c in cs[::3]:
            noise = noise_of(MATCHED, c.arm, c.seed, first, item.noise[0], WIDTH)
            moved = states(lm, ids, perturb_rows(c.arm, 0.3, "relative", noise, 1, np.ones(len(ids), bool)), first)
            assert [at.block for at in got[c].blocks] == list(range(first, LAYERS))
            for at in got[c].blocks:
                x, y = clean[at.block, 1:], moved[at.block, 1:]  # not the added BOS
                n, m = np.linalg.norm(x, axis=-1), np.linalg.norm(y, axis=-1)
                cosine = (x * y).sum(-1) / (n * m)
                angle = np.arccos(np.clip(cosine, -1, 1))
                want = {
                    "distance": np.linalg.norm(y - x, axis=-1).mean(),
                    "relative": np.linalg.norm(y - x, axis=-1).mean() / n.mean(),
                    "radial": (m - n).mean(),
                    "angular": (2 * np.sqrt(n * m) * np.sin(angle / 2)).mean(),
                    "cosine": cosine.mean(),
                }
                # The oracle's angle is an arc cosine, good to 1e-8 in float64; Mixtral runs in float32.
                exact = 1e-3 if lm.name == "mixtral" else 1e-5 if lm.name in FLOAT32 else 1e-6
                for name, value in want.items():
                    assert getattr(at, name)[row] == pytest.approx(value, rel=exact, abs=exact), (c, at.block, name)
    assert got[cs[0]].tokens.tolist() == [len(item.sequences[0]) - 1 for item in TEXTS]


def test_the_injected_block_shows_what_was_asked(lm):
    engine, batch = engine_of(lm, (1,)), make_batch(TEXTS, has_bos=True)
    for c, travel in propagated(engine, batch, [condition(arm, 0.2) for arm in ARMS], 10_000, attention=False):
        at = travel.blocks[0]
        assert at.block == 1
        np.testing.assert_allclose(at.relative, 0.2, rtol=1e-5)
        assert at.attention_entropy is None
        assert at.norm_statistic == {}
        if c.arm == "magnitude":
            np.testing.assert_allclose(at.angular, 0, atol=1e-5)
            np.testing.assert_allclose(at.cosine, 1, rtol=1e-9)
        else:
            np.testing.assert_allclose(at.radial, 0, atol=1e-5)
            np.testing.assert_allclose(at.angular, at.distance, rtol=1e-6)
            np.testing.assert_allclose(at.cosine, 1 - 0.2**2 / 2, rtol=1e-6)


def test_nothing_perturbed_moves_nothing(lm):
    engine, batch = engine_of(lm, (0,)), make_batch(TEXTS, has_bos=True)
    attention = lm.name != "falcon-rw"
    ((_, travel),) = propagated(engine, batch, [condition("angular", 0.0)], 1, attention=attention)
    for at in travel.blocks:
        for values in (at.distance, at.relative, at.radial, at.angular, *at.norm_statistic.values()):
            assert values.tolist() == [0.0] * len(TEXTS)
        assert at.cosine.tolist() == [1.0] * len(TEXTS)
        if at.block > 0 and attention:
            assert at.attention_entropy.tolist() == at.attention_js.tolist() == [0.0] * len(TEXTS)


@pytest.fixture
def attentive(lm):
    if lm.name == "falcon-rw":
        pytest.skip("its weights are refused")
    return lm


def test_attention_that_differs_where_it_returns_weights_is_refused():
    """Falcon adds ALiBi twice in its eager attention: those weights are not the ones the model uses."""
    lm, batch = model("falcon-rw"), make_batch(TEXTS, has_bos=True)
    before = state_of(lm)
    assert "its attention is another one" in weights_refused(lm)
    with pytest.raises(SiteError, match="its attention is another one"):
        list(propagated(engine_of(lm, (0,)), batch, [condition("angular", 0.3)], 1, attention=True))
    assert state_of(lm) == before


def test_attention_weights_are_those_of_the_model(attentive):
    """Same logits to 1e-5 and states to 1e-5 with weights watched; every row a distribution over earlier keys."""
    lm, batch, found = attentive, make_batch(TEXTS, has_bos=True), {}
    assert weights_refused(lm) is None

    def logits():
        with torch.no_grad():
            return lm.hf(input_ids=batch.ids, attention_mask=batch.mask, use_cache=False).logits[batch.mask.bool()]

    before, clean = state_of(lm), logits()
    with watching_weights(lm, range(LAYERS), found.__setitem__):
        watched = logits()
    assert torch.allclose(watched, clean, rtol=1e-5, atol=1e-5)
    assert sorted(found) == list(range(LAYERS))
    for weights in found.values():
        assert weights.shape == (len(TEXTS), 4, *batch.ids.shape[1:], batch.ids.shape[1])
        real = weights[batch.mask.bool()[:, None].expand(weights.shape[:3])]
        assert torch.allclose(real.sum(-1), torch.ones(len(real)).to(real), atol=1e-5)
        assert not weights.triu(1).any()
    assert state_of(lm) == before


def test_attention_measures_in_every_family(attentive):
    lm = attentive
    engine, batch = engine_of(lm, (0,)), make_batch(TEXTS, has_bos=True)
    for c, travel in propagated(engine, batch, [condition(a, 0.3) for a in ARMS], 1, attention=True):
        for at in travel.blocks[1:]:
            # The attention right after a magnitude step sees it only through a norm's epsilon.
            blind = c.arm == "magnitude" and at.block == 1 and lm.name != "opt-post_norm"
            assert (at.attention_js[:3] < 1e-6 if blind else at.attention_js[:3] > 1e-6).all(), (c.arm, at.block)
            assert (at.attention_js < math.log(2)).all()
            assert blind or (abs(at.attention_entropy[:3]) > 1e-6).all()
            roles = {role for role in NORMS if getattr(lm.anatomy.blocks[at.block], role) is not None}
            last = at.block == LAYERS - 1 and lm.anatomy.final_norm is not None
            assert set(at.norm_statistic) == roles | ({"final_norm"} if last else set())


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_attention_and_norms_against_a_forward_written_by_hand(family):
    lm = LanguageModel(tiny(family), None, name=family)
    engine, batch = engine_of(lm, (0,)), make_batch(TEXTS, has_bos=True)
    cs = [condition(arm, 0.3) for arm in ARMS]
    got = dict(propagated(engine, batch, cs, 10_000, attention=True))
    eps = settings(lm.hf)["eps"]
    for row, item in enumerate(TEXTS):
        ids, options = item.sequences[0], settings(lm.hf)
        for c in cs:
            noise = noise_of(MATCHED, c.arm, 0, 0, item.noise[0], WIDTH)
            edit = perturb_rows(c.arm, 0.3, "relative", noise, 1, np.ones(len(ids), bool))
            clean, moved = Run(ids=ids, **options), Run(ids=ids, edits={0: edit}, **options)
            for at in got[c].blocks[1:]:
                p, q = clean.at[at.block, "w"][:, 1:], moved.at[at.block, "w"][:, 1:]  # queries but the BOS
                changed = scipy_entropy(q, axis=-1).mean() - scipy_entropy(p, axis=-1).mean()
                assert at.attention_entropy[row] == pytest.approx(changed, rel=1e-4, abs=1e-6)
                js = (rel_entr(p, (p + q) / 2) + rel_entr(q, (p + q) / 2)).sum(-1).mean() / 2
                assert at.attention_js[row] == pytest.approx(js, rel=1e-4, abs=1e-8)
                for role, name in (("pre_attention_norm", "s1"), ("pre_mlp_norm", "s2")):
                    s, t = (np.sqrt(run.at[at.block, name][1:] ** 2 - eps).mean() for run in (clean, moved))
                    assert at.norm_statistic[role][row] == pytest.approx(t / s - 1, rel=1e-4, abs=1e-6)
            s, t = (np.sqrt(run.at[None, "sf"][1:] ** 2 - eps).mean() for run in (clean, moved))
            assert got[c].blocks[-1].norm_statistic["final_norm"][row] == pytest.approx(t / s - 1, rel=1e-4, abs=1e-6)


def test_after_a_magnitude_step_the_next_norms_statistic_changes_by_it():
    lm = LanguageModel(tiny("llama").double(), None, name="llama")
    policy = MATCHED.with_levels(sign="grow")
    engine, batch = Engine(lm, Protocol((0,), "relative", {"p": policy}), kl=False), make_batch(TEXTS, has_bos=True)
    ((_, travel),) = propagated(engine, batch, [condition("magnitude", 0.25, sign=None)], 1, attention=False)
    np.testing.assert_allclose(travel.blocks[1].norm_statistic["pre_attention_norm"], 0.25, rtol=1e-12)


def test_distance_is_radial_and_angular_together():
    """Per state, at every block of real passes and for small and large angles."""
    generator = torch.Generator().manual_seed(0)
    h = torch.randn((500, 16), generator=generator, dtype=torch.float64) * torch.logspace(-6, 6, 500)[:, None]
    for size in (1e-9, 1e-4, 0.1, 1.0, 3.0):
        moved = h + size * h.norm(dim=-1, keepdim=True) * torch.randn(h.shape, generator=generator).double()
        found = gap(h, moved)
        total = found.radial.square() + found.angular.square()
        error = (total - found.distance.square()).abs() / found.distance.square()
        assert error.max() < (1e-12 if size > 1e-5 else 1e-4), size  # at 1e-9 the states hold seven digits of it
        cosine = (h * moved).sum(-1) / h.norm(dim=-1) / moved.norm(dim=-1)
        torch.testing.assert_close(found.cosine, cosine, rtol=1e-12, atol=1e-12)
    there_and_back = gap(h, -h)
    torch.testing.assert_close(there_and_back.angular, 2 * h.norm(dim=-1))
    assert (gap(h, h).angular == 0).all()


def test_distance_is_radial_and_angular_at_every_block(lm):
    batch = make_batch(TEXTS, has_bos=True)
    engine = engine_of(lm, (0,))
    clean = engine.clean(batch)
    seen = []
    handles = [b.register_forward_hook(lambda _, __, out: seen.append(first_tensor(out).clone())) for b in lm.blocks]
    (stack,) = engine.stacks(batch, clean, [condition("angular", 0.0)], 1)
    engine.states(batch, clean, stack)
    clean_states, real = seen[-LAYERS:], batch.mask.bool()
    (stack,) = engine.stacks(batch, clean, [condition("angular", 0.3)], 1)
    engine.states(batch, clean, stack)
    for handle in handles:
        handle.remove()
    for x, y in zip(clean_states[1:], seen[-LAYERS:][1:], strict=True):
        found = gap(x[real], y[real])
        total = found.radial.square() + found.angular.square()
        torch.testing.assert_close(total, found.distance.square(), rtol=1e-10, atol=0)
        assert found.distance.min() > 1e-4


def test_entropy_and_divergence_against_scipy_and_closed_forms():
    generator = np.random.default_rng(0)
    p, q = (generator.dirichlet(np.full(7, 0.3), size=200) for _ in range(2))
    p[:, 0], q[:, 1] = 0, 0
    p, q = (x / x.sum(-1, keepdims=True) for x in (p, q))
    np.testing.assert_allclose(entropy(torch.from_numpy(p)), scipy_entropy(p, axis=-1), rtol=1e-12)
    want = jensenshannon(p, q, axis=-1) ** 2
    np.testing.assert_allclose(jensen_shannon(torch.from_numpy(p), torch.from_numpy(q)), want, rtol=1e-10)
    same = torch.from_numpy(p).float()
    assert (jensen_shannon(same, same) == 0).all()
    one, other = torch.eye(2, dtype=torch.float64)
    assert jensen_shannon(one, other).item() == pytest.approx(math.log(2), rel=1e-15)
    assert entropy(torch.full((8,), 1 / 8)).item() == pytest.approx(math.log(8), rel=1e-12)
    # Small differences: JS = sum d^2/(8 p) to leading order.
    d = 1e-7 * torch.tensor([1.0, -1.0], dtype=torch.float64)
    base = torch.tensor([0.3, 0.7], dtype=torch.float64)
    assert jensen_shannon(base, base + d).item() == pytest.approx(((d**2) / (8 * base)).sum().item(), rel=1e-5)


def test_weights_that_cannot_be_had_are_refused_with_a_reason():
    hf = tiny("bloom")
    lm = LanguageModel(hf, None, name="bloom")
    for block in lm.blocks:
        own = block.self_attention.forward
        block.self_attention.forward = lambda *a, own=own, **k: (own(*a, **k)[0], None)
    assert "return no weights" in weights_refused(lm)
    batch = make_batch(TEXTS, has_bos=True)
    with pytest.raises(SiteError, match=r"attention pattern.*return no weights"):
        list(propagated(engine_of(lm, (0,)), batch, [condition("angular", 0.3)], 1, attention=True))
    ((_, travel),) = propagated(engine_of(lm, (0,)), batch, [condition("angular", 0.3)], 1, attention=False)
    assert all(at.attention_js is None and at.attention_entropy is None for at in travel.blocks)
    assert travel.blocks[-1].distance.min() > 0


def test_a_protocol_of_several_layers_is_refused():
    lm = LanguageModel(tiny("gpt2"), None)
    with pytest.raises(UsageError, match="one layer"):
        list(propagated(engine_of(lm, (0, 1)), make_batch(TEXTS, has_bos=True), [], 1, attention=False))


@pytest.mark.parametrize("family", ["gpt2", "bloom", "falcon-7b"])
@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt])
def test_the_model_is_restored_after_a_failure(family, error):
    lm = LanguageModel(tiny(family), None, name=family)
    before, calls = state_of(lm), []

    def fail(*_):
        calls.append(1)
        if len(calls) > 2:
            raise error

    handle = lm.blocks[2].register_forward_hook(fail)
    with pytest.raises(error):
        list(propagated(engine_of(lm, (0,)), make_batch(TEXTS, has_bos=True), [condition("angular", 0.3)], 1,
                        attention=True))  # fmt: skip
    handle.remove()
    assert state_of(lm) == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_epsilon_and_bias_by_behaviour(lm, dtype):
    """Against the modules' own attributes, where a family has them; OLMo's norm has neither."""
    for norm in (n for block in lm.anatomy.blocks for n in block.norms):
        epsilon, bias = constants_of(norm.to(dtype), WIDTH, torch.empty(0, dtype=dtype))
        named = next((getattr(norm, n) for n in ("eps", "variance_epsilon") if hasattr(norm, n)), 1e-5)
        assert epsilon == pytest.approx(named, rel=1e-3, abs=1e-12)
        want = getattr(norm, "bias", None)
        torch.testing.assert_close(bias, torch.zeros(WIDTH, dtype=dtype) if want is None else want.data,
                                   rtol=1e-6, atol=1e-6)  # fmt: skip
        if lm.name == "mixtral":
            norm.float()
        else:
            norm.double()


def test_statistics_of_states():
    x = torch.tensor([[3.0, -1.0, 1.0, 1.0]])
    assert statistic(x, "rmsnorm").item() == pytest.approx(math.sqrt(3))
    assert statistic(x, "layernorm").item() == pytest.approx(math.sqrt(2))
    assert statistic(x, "layernorm", 2.0).item() == pytest.approx(2)
