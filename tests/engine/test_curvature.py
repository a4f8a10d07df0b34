"""Second derivatives against the sweep's own damages in float64, a full Hessian, and every family."""

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from engine.made import encoded_text, random_ids
from engine.oracle import plain_nll
from polarlens.engine.batching import make_batch
from polarlens.engine.conditions import Condition, Protocol
from polarlens.engine.curvature import curvatures, kinked
from polarlens.engine.engine import Engine
from polarlens.errors import NumericalError, SiteError
from polarlens.models import LanguageModel
from polarlens.models.attention import attention_by, plain
from polarlens.perturbation import MATCHED, coins, gaussian
from tiny import FAMILIES, tiny

TEXTS = [encoded_text(f"item{k}", (0, *random_ids(n, k))) for k, n in enumerate((5, 3, 4))]
DELTAS = (0.1, 0.05, 0.025, 0.0125)


def exact_norm(module, x):
    """RMSNorm in the input's own precision: Transformers computes it in float32 whatever the model's dtype."""
    return module.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + module.variance_epsilon)


@pytest.fixture
def float64_model(request, monkeypatch):
    hf = tiny(request.param).double()
    for module in hf.modules():
        if type(module).__name__ == "LlamaRMSNorm":
            monkeypatch.setattr(type(module), "forward", exact_norm)
    return LanguageModel(hf, None, name=request.param)


@pytest.mark.parametrize("float64_model", ["gpt2", "llama"], indirect=True)
@pytest.mark.parametrize(("mode", "positions"), [("relative", "no-first"), ("absolute", "all"), ("site", "all")])
def test_the_sweeps_own_draws_have_the_damage_that_calculus_says(float64_model, mode, positions):
    """On the same draws, antithetic damage = delta²/2 times the curvature + O(delta^4), at true float64."""
    lm, layer = float64_model, 1
    batch = make_batch(TEXTS, has_bos=True)
    protocol = Protocol((layer,), mode, {"p": MATCHED}, medians={layer: 3.0})
    found = curvatures(lm, protocol, batch, policy=MATCHED, positions=positions, probes=(0, 1))[layer]
    engine = Engine(lm, protocol, kl=False)
    limit = {"magnitude": found.radial / 2, "angular": (found.tangential - found.gradient) / 2}
    scale = {"relative": 1.0, "absolute": 3.0, "site": 1.0}[mode]
    assert np.abs(found.gradient / found.tangential).min() > 1e-3  # the gradient term counts
    with attention_by(lm.hf, plain):
        clean = engine.clean(batch)
        for arm, curvature in limit.items():
            errors = []
            for delta in np.array(DELTAS) * scale:
                pair = [Condition("p", positions, arm, delta, s, sign) for s in (0, 1) for sign in (1, -1)]
                nll = {c: o.nll for c, o in engine.perturbed(batch, clean, pair, 10_000)}
                base = batch.sum_rows(clean.nll).numpy()
                damage = np.stack([sum(nll[c] for c in pair if c.seed == s) / 2 - base for s in (0, 1)])
                errors.append(damage / delta**2 / curvature - 1)
            falls = np.array(errors[:-1]) / np.array(errors[1:])
            assert np.abs(errors[-1]).max() < 0.02, errors
            assert np.allclose(falls[-1], 4.0, rtol=0.02), falls
            assert np.allclose(falls[-2], 4.0, rtol=0.08), falls


def full_hessian(lm, ids, layer):
    """(T·d, T·d) Hessian and (T, d) gradient of the summed nll by a plain forward with a hook that sets the state."""
    states = []
    handle = lm.blocks[layer].register_forward_hook(
        lambda _, __, out: states.append(out[0] if isinstance(out, tuple) else out)
    )
    lm.hf(input_ids=torch.tensor([ids]), use_cache=False)
    handle.remove()
    x = states[0][0]

    def loss(flat):
        def put(_module, _args, out):
            new = flat.reshape(1, *x.shape)
            return (new, *out[1:]) if isinstance(out, tuple) else new

        handle = lm.blocks[layer].register_forward_hook(put)
        try:
            logits = lm.hf(input_ids=torch.tensor([ids]), use_cache=False).logits[0, :-1]
        finally:
            handle.remove()
        return torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="sum")

    with attention_by(lm.hf, plain):
        hessian = torch.func.jacrev(torch.func.jacrev(loss), chunk_size=1)(x.reshape(-1))
        gradient = torch.func.grad(loss)(x.reshape(-1))
    return x.numpy(), gradient.reshape(x.shape).numpy(), hessian.numpy()


@pytest.mark.parametrize("float64_model", ["gpt2", "llama"], indirect=True)
def test_against_a_full_hessian(float64_model):
    lm, layer, item = float64_model, 1, TEXTS[1]
    batch = make_batch(TEXTS, has_bos=True)
    protocol = Protocol((layer,), "relative", {"p": MATCHED})
    probes = range(200)
    found = curvatures(lm, protocol, batch, policy=MATCHED, positions="all", probes=probes)[layer]
    x, g, hessian = full_hessian(lm, item.sequences[0], layer)
    t, d = x.shape
    n = np.linalg.norm(x, axis=1)
    u = x / n[:, None]
    blocks = hessian.reshape(t, d, t, d)
    along = np.array([u[i] @ blocks[i, :, i] @ u[i] for i in range(t)])
    trace = np.array([np.trace(blocks[i, :, i]) for i in range(t)])

    # every probe on its own, from the draws
    for k in (0, 7):
        signs = coins(MATCHED, "magnitude", k, layer, item.noise)[0]
        xi = ((n * signs)[:, None] * u).reshape(-1)
        assert found.radial[k, 1] == pytest.approx(xi @ hessian @ xi, rel=1e-9)
        v = gaussian(MATCHED, "angular", k, layer, item.noise, d)[0].astype(np.float64)
        v -= (v * u).sum(1, keepdims=True) * u
        xi = (n[:, None] * v / np.linalg.norm(v, axis=1, keepdims=True)).reshape(-1)
        assert found.tangential[k, 1] == pytest.approx(xi @ hessian @ xi, rel=1e-9)
    assert found.gradient[1] == pytest.approx((n * (u * g).sum(1)).sum(), rel=1e-9)
    assert found.tokens.tolist() == [6, 4, 5]

    # and their mean is Hutchinson's estimate of the sums of the diagonal blocks
    for estimates, want in (
        (found.radial[:, 1], (n**2 * along).sum()),
        (found.tangential[:, 1], (n**2 * (trace - along)).sum() / (d - 1)),
    ):
        error = estimates.std(ddof=1) / np.sqrt(len(probes))
        assert abs(estimates.mean() - want) < 4 * error
        assert error < 0.15 * estimates.std(ddof=1)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_second_derivatives(family):
    """Against a central difference of the plain hooked forward along one probe, float32's digits."""
    lm = LanguageModel(tiny(family), None, name=family)
    protocol = Protocol((0, 1), "relative", {"p": MATCHED})
    batch = make_batch(TEXTS, has_bos=True)
    attention = lm.hf.config._attn_implementation
    found = curvatures(lm, protocol, batch, policy=MATCHED, positions="no-first", probes=(0,))
    assert lm.hf.config._attn_implementation == attention
    assert sorted(found) == [0, 1]
    ids, noise = TEXTS[0].sequences[0], TEXTS[0].noise
    signs = coins(MATCHED, "magnitude", 0, 0, noise)[0][:, None]
    signs[0] = 0
    if family != "mixtral":  # its grouped product has no float64
        lm.hf.double()

    def nll(r):
        return plain_nll(lm.hf, lm.blocks, ids, {0: lambda h: h * (1 + r * signs)}).sum()

    r = 1e-4 if kinked(lm) else 0.02  # with ReLU the derivative holds between kinks only
    second = (nll(r) + nll(-r) - 2 * nll(0)) / r**2
    fourth = (nll(2 * r) + nll(-2 * r) - 2 * nll(0)) / (2 * r) ** 2
    want = (4 * second - fourth) / 3
    assert found[0].radial[0, 0] == pytest.approx(want, rel=0.02, abs=0.02)
    assert found[0].nll[0] == pytest.approx(nll(0), rel=1e-5)


def test_kinks_are_noticed():
    """Rectified activations: OPT among the families here."""
    assert [name for name in ("gpt2", "llama", "opt", "falcon-7b") if kinked(LanguageModel(tiny(name), None))] == [
        "opt"
    ]


def test_probes_depend_on_their_key_alone():
    lm = LanguageModel(tiny("gpt2"), None, name="gpt2")
    protocol = Protocol((1,), "relative", {"p": MATCHED})

    def at(items, probes):
        return curvatures(
            lm, protocol, make_batch(items, has_bos=True), policy=MATCHED, positions="all", probes=probes
        )[1]

    alone, together = at([TEXTS[1]], (3,)), at(TEXTS, (0, 3))
    assert together.radial[1, 1] == pytest.approx(alone.radial[0, 0], rel=1e-4)
    assert together.tangential[1, 1] == pytest.approx(alone.tangential[0, 0], rel=1e-4)
    assert together.tangential[0, 1] != pytest.approx(alone.tangential[0, 0], rel=1e-2)


def test_a_loss_without_second_derivatives_is_refused():
    """Attention by a fused kernel whatever is asked for; the model is as before."""

    def fused(module, query, key, value, attention_mask, **_):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return out.transpose(1, 2).contiguous(), None

    lm = LanguageModel(tiny("gpt2"), None, name="gpt2")
    protocol = Protocol((1,), "relative", {"p": MATCHED})
    with (
        attention_by(lm.hf, fused),
        pytest.raises(SiteError, match=r"block 1: the loss cannot be"),
    ):
        curvatures(lm, protocol, make_batch(TEXTS, has_bos=True), policy=MATCHED, positions="all", probes=(0,))
    assert "forward" not in lm.blocks[1].__dict__


def test_what_is_not_finite_names_the_item():
    lm = LanguageModel(tiny("gpt2"), None, name="gpt2")
    lm.hf.transformer.ln_f.bias.fill_(float("nan"))
    protocol = Protocol((1,), "relative", {"p": MATCHED})
    with pytest.raises(NumericalError, match="item0"):
        curvatures(lm, protocol, make_batch(TEXTS, has_bos=True), policy=MATCHED, positions="all", probes=(0,))
