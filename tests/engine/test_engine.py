"""The engine against independent forwards: plain hooks on every family, hand-written forwards on two."""

import numpy as np
import pytest
import torch

from engine.made import LAYERS, PAIRS, TEXTS, WIDTH, condition, encoded_text, state_of
from engine.oracle import noise_of, perturb_rows, plain_nll
from engine.reference import gpt2_nll, llama_nll
from polarlens.engine.batching import Batch, batches, make_batch
from polarlens.engine.conditions import Condition, Protocol
from polarlens.engine.engine import Engine
from polarlens.models import LanguageModel
from polarlens.perturbation import MATCHED, NOTEBOOK, PAPER
from tiny import FAMILIES, tiny

INDEPENDENT = MATCHED.with_levels(across_members="independent")


def nll_by_row(engine: Engine, batch: Batch, conditions, tokens=10_000) -> dict[Condition, np.ndarray]:
    clean = engine.clean(batch)
    return {c: outcome.nll for c, outcome in engine.perturbed(batch, clean, conditions, tokens)}


def expected_row(lm, policy, sequence, ids, c: Condition, layers, mode, part=None) -> float:
    part = np.ones(len(ids), dtype=bool) if part is None else part
    edits = {
        n: perturb_rows(c.arm, c.delta, mode, noise_of(policy, c.arm, c.seed, n, sequence, lm.width), c.sign or 1, part)
        for n in layers
    }
    return float(plain_nll(lm.hf, lm.blocks, ids, edits).sum())


@pytest.mark.parametrize("family", FAMILIES)
def test_equals_a_full_hooked_forward_of_each_sequence_alone(family):
    """Padded batch, stacked conditions, two perturbed layers; against one plain hooked forward per sequence."""
    lm = LanguageModel(tiny(family), None, name=family)
    layers = (0, 2)
    engine = Engine(lm, Protocol(layers, "relative", {"p": MATCHED}), kl=False)
    batch = make_batch(TEXTS, has_bos=True)
    cs = [
        condition(arm, 0.2, seed=s, sign=sign) for arm in ("magnitude", "angular") for s in (0, 1) for sign in (1, -1)
    ]
    got = nll_by_row(engine, batch, cs)
    for c in cs:
        for row, item in enumerate(TEXTS):
            want = expected_row(lm, MATCHED, item.noise[0], item.sequences[0], c, layers, "relative")
            # Mixtral's routing can flip on a rounding difference; all others agree to float32's last digits.
            assert got[c][row] == pytest.approx(want, rel=1e-3 if family == "mixtral" else 1e-5), (c, row)


@pytest.mark.parametrize("policy", [MATCHED, INDEPENDENT, PAPER])
def test_pairs_equal_plain_hooks(policy):
    lm = LanguageModel(tiny("llama"), None, name="llama")
    engine = Engine(lm, Protocol((1,), "absolute", {"p": policy}), kl=False)
    batch = make_batch(PAIRS, has_bos=True)
    cs = [condition(arm, 0.7, sign=None) for arm in ("magnitude", "angular")]
    got = nll_by_row(engine, batch, cs)
    rows = [(s, ids) for item in PAIRS for s, ids in zip(item.noise, item.sequences, strict=True)]
    for c in cs:
        for row, (sequence, ids) in enumerate(rows):
            want = expected_row(lm, policy, sequence, ids, c, (1,), "absolute")
            assert got[c][row] == pytest.approx(want, rel=1e-5)


def weights64(model) -> dict[str, np.ndarray]:
    return {name: value.double().numpy() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize("arm", ["magnitude", "angular"])
def test_equals_a_forward_written_by_hand(family, arm):
    model = tiny(family)
    lm = LanguageModel(model, None, name=family)
    layers = (0, 1)
    engine = Engine(lm, Protocol(layers, "relative", {"p": MATCHED}), kl=False)
    c = condition(arm, 0.3)
    got = nll_by_row(engine, make_batch(TEXTS, has_bos=True), [c])[c]
    for row, item in enumerate(TEXTS):
        ids = item.sequences[0]
        edits = {
            n: perturb_rows(
                arm,
                0.3,
                "relative",
                noise_of(MATCHED, arm, 0, n, item.noise[0], WIDTH),
                1,
                np.ones(len(ids), dtype=bool),
            )
            for n in layers
        }
        if family == "gpt2":
            want = gpt2_nll(weights64(model), ids, layers=LAYERS, heads=4, edits=edits)
        else:
            config = model.config
            want = llama_nll(
                weights64(model), ids, layers=LAYERS, heads=4, kv_heads=2, eps=config.rms_norm_eps,
                theta=config.rope_parameters["rope_theta"], edits=edits,
            )  # fmt: skip
        assert got[row] == pytest.approx(want.sum(), rel=2e-5)


@pytest.mark.parametrize("family", ["gpt2", "bloom", "gemma2", "opt", "falcon-7b"])
def test_control_is_exactly_zero(family):
    lm = LanguageModel(tiny(family), None, name=family)
    engine = Engine(lm, Protocol((1, 2), "relative", {"p": MATCHED}), kl=True)
    batch = make_batch(TEXTS, has_bos=True)
    clean = engine.clean(batch)
    control = engine.control(batch, clean)
    assert control.nll.tolist() == batch.sum_rows(clean.nll).tolist()
    assert control.kl.tolist() == [0.0] * len(TEXTS)
    assert control.infeasible.tolist() == [0] * len(TEXTS)


def test_rows_do_not_depend_on_batching_order_or_stacking():
    lm = LanguageModel(tiny("gpt_neox"), None, name="neox")
    cs = [condition(arm, d, sign=s) for arm in ("magnitude", "angular") for d in (0.05, 0.4) for s in (1, -1)]
    engine = Engine(lm, Protocol((1,), "relative", {"p": MATCHED}), kl=True)

    def rows(items, tokens, stack):
        found = {}
        for batch in batches(items, tokens, has_bos=True):
            clean = engine.clean(batch)
            for c, outcome in engine.perturbed(batch, clean, cs, stack):
                for n, item in enumerate(batch.items):
                    found[item.item.item, c] = (outcome.nll[n], outcome.kl[n], outcome.realised.first_sum[n])
        return found

    reference = rows(TEXTS, 1, 1)
    for items, tokens, stack in ((TEXTS, 10_000, 10_000), (TEXTS[::-1], 30, 100), (TEXTS[1:], 26, 1)):
        for key, values in rows(items, tokens, stack).items():
            np.testing.assert_allclose(values, reference[key], rtol=1e-5, atol=1e-6)


def test_kl_and_realised_distance_against_the_full_distributions():
    lm = LanguageModel(tiny("gpt2"), None, name="gpt2")
    engine = Engine(lm, Protocol((1,), "absolute", {"p": MATCHED}), kl=True)
    item = TEXTS[0]
    ids, c = item.sequences[0], condition("angular", 0.5)
    batch = make_batch([item], has_bos=True)
    ((_, outcome),) = engine.perturbed(batch, engine.clean(batch), [c], 1)
    noise = noise_of(MATCHED, "angular", 0, 1, item.noise[0], WIDTH)
    edit = perturb_rows("angular", 0.5, "absolute", noise, 1, np.ones(len(ids), dtype=bool))

    def logp(edits):
        handle = lm.blocks[1].register_forward_hook(
            lambda _m, _a, out: torch.from_numpy(edits(out[0].double().numpy())).float()[None]
        )
        with torch.no_grad():
            logits = lm.hf(input_ids=torch.tensor([ids])).logits[0, :-1].double()
        handle.remove()
        return torch.log_softmax(logits, -1)

    clean, dirty = logp(lambda h: h), logp(edit)
    kl = (clean.exp() * (clean - dirty)).sum().item()
    assert outcome.kl[0] == pytest.approx(kl, rel=1e-4)
    assert outcome.realised.first_sum[0] / outcome.realised.first_count[0] == pytest.approx(0.5, rel=1e-6)
    assert outcome.realised.max_error[0] < 1e-5
    assert outcome.realised.norm_change[0] < 1e-6


def test_infeasible_tokens_stay_clean_in_both_arms_and_are_counted():
    lm = LanguageModel(tiny("llama"), None, name="llama")
    item = TEXTS[2]
    ids = item.sequences[0]
    norms = {}
    handle = lm.blocks[1].register_forward_hook(
        lambda _m, _a, out: norms.update(n=out[0].double().norm(dim=-1).numpy())
    )
    with torch.no_grad():
        lm.hf(input_ids=torch.tensor([ids]))
    handle.remove()
    delta = float(np.median(norms["n"]))  # half of the tokens cannot be moved that far
    part = delta < norms["n"]
    engine = Engine(lm, Protocol((1,), "absolute", {"p": PAPER}), kl=False)
    batch = make_batch([item], has_bos=True)
    for c, outcome in engine.perturbed(
        batch, engine.clean(batch), [condition(a, delta, sign=None) for a in ("magnitude", "angular")], 1
    ):
        assert outcome.eligible[0] == len(ids)
        assert outcome.infeasible[0] == int((~part).sum()) > 0
        assert outcome.nll[0] == pytest.approx(
            expected_row(lm, PAPER, item.noise[0], ids, c, (1,), "absolute", part), rel=1e-5
        )


def test_apply_perturbs_infeasible_tokens_and_counts_them():
    lm = LanguageModel(tiny("llama"), None, name="llama")
    policy = PAPER.with_levels(infeasible="apply")
    item, delta = TEXTS[0], 1e4
    ids = item.sequences[0]
    engine = Engine(lm, Protocol((1,), "absolute", {"p": policy}), kl=False)
    batch = make_batch([item], has_bos=True)
    c = condition("magnitude", delta, sign=None)
    ((_, outcome),) = engine.perturbed(batch, engine.clean(batch), [c], 1)
    assert outcome.infeasible[0] == len(ids)
    assert outcome.nll[0] == pytest.approx(expected_row(lm, policy, item.noise[0], ids, c, (1,), "absolute"), rel=1e-5)


@pytest.mark.parametrize("positions", ["no-first", "no-sinks"])
def test_positions_left_clean(positions):
    """A planted sink (an embedding row 1,000 times longer) is left clean under no-sinks, token 0 under no-first."""
    model = tiny("llama")
    with torch.no_grad():
        model.get_input_embeddings().weight[77] *= 1000
    lm = LanguageModel(model, None, name="llama")
    ids = (0, 5, 6, 77, 9, 10, 11)
    item = encoded_text("sink", ids)
    engine = Engine(lm, Protocol((0, 1), "relative", {"p": MATCHED}), kl=False)
    batch = make_batch([item], has_bos=True)
    c = condition("angular", 0.3, positions=positions)
    ((_, outcome),) = engine.perturbed(batch, engine.clean(batch), [c], 1)
    part = np.ones(len(ids), dtype=bool)
    part[0 if positions == "no-first" else 3] = False
    assert outcome.eligible[0] == len(ids) - 1
    assert outcome.nll[0] == pytest.approx(
        expected_row(lm, MATCHED, item.noise[0], ids, c, (0, 1), "relative", part), rel=1e-5
    )


def test_notebook_policy_runs_and_matches_the_mean():
    lm = LanguageModel(tiny("gpt_neox"), None, name="neox")
    engine = Engine(lm, Protocol((1,), "absolute", {"p": NOTEBOOK}), kl=False)
    batch = make_batch(TEXTS, has_bos=False)
    ((_, outcome),) = engine.perturbed(batch, engine.clean(batch), [condition("angular", 0.5, sign=None)], 1)
    means = outcome.realised.first_sum / outcome.realised.first_count
    np.testing.assert_allclose(means, 0.5, rtol=1e-4)


class Boom(Exception):
    pass


@pytest.mark.parametrize("error", [None, Boom, KeyboardInterrupt])
def test_model_is_restored_after_success_and_failure(error, monkeypatch):
    lm = LanguageModel(tiny("gpt2"), None, name="gpt2")
    ids = torch.tensor([TEXTS[0].sequences[0]])
    seen = []
    lm.blocks[1].register_forward_hook(lambda *_: seen.append(1))  # the caller's own hook stays
    before, logits = state_of(lm), lm.hf(input_ids=ids).logits
    engine = Engine(lm, Protocol((1, 2), "relative", {"p": MATCHED}), kl=False)
    batch = make_batch(TEXTS, has_bos=True)
    if error is None:
        nll_by_row(engine, batch, [condition("angular", 0.3)])
    else:

        def fail(*_a, **_k):
            raise error

        monkeypatch.setattr("polarlens.engine.stack.displace", fail)
        with pytest.raises(error):
            nll_by_row(engine, batch, [condition("angular", 0.3)])
    assert state_of(lm) == before
    assert torch.equal(lm.hf(input_ids=ids).logits, logits)
    assert seen


def test_a_callers_hook_that_edits_is_applied_once():
    """The cached state is the raw output, so a hook of the caller acts in the suffix as it did in the clean pass."""
    lm = LanguageModel(tiny("gpt2"), None, name="gpt2")
    for n in (0, 1, 2):
        lm.blocks[n].register_forward_hook(lambda _m, _a, out: out * 1.1)
    engine = Engine(lm, Protocol((1,), "relative", {"p": MATCHED}), kl=False)
    batch = make_batch(TEXTS, has_bos=True)
    clean = engine.clean(batch)
    assert engine.control(batch, clean).nll.tolist() == batch.sum_rows(clean.nll).tolist()
    c = condition("angular", 0.3)
    got = nll_by_row(engine, batch, [c])[c]
    want = [expected_row(lm, MATCHED, i.noise[0], i.sequences[0], c, (1,), "relative") for i in TEXTS]
    np.testing.assert_allclose(got, want, rtol=1e-5)
