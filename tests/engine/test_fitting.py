"""Batches that do not fit are split: the same numbers come out, from smaller passes."""

import numpy as np
import pytest
import torch

from engine.made import TEXTS, condition, engine_of
from polarlens.engine.batching import make_batch
from polarlens.engine.fitting import fitting
from polarlens.engine.repair import clean_activations, planned, repaired
from polarlens.engine.suffix import hidden_of
from polarlens.models import LanguageModel
from tiny import tiny


def run_of(lm, names=("attention+mlp", "norm-scale", "attention-pattern")):
    engine = engine_of(lm, (0,))
    plans = [planned(name, (1, 2), lm.anatomy, (0,)) for name in names]
    conditions = [condition(arm, 0.3, sign=s) for arm in ("magnitude", "angular") for s in (1, -1)]

    def run(batch, tokens):
        clean, kept = clean_activations(engine, batch, plans)
        return [
            (item.item.item, c, repair.name if repair else None, outcome.nll[row])
            for c, repair, outcome in repaired(engine, batch, clean, kept, conditions, plans, tokens)
            for row, item in enumerate(batch.items)
        ]

    return run


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("out"), RuntimeError("can't allocate memory: 9"), MemoryError()]
)
def test_a_batch_that_does_not_fit_is_split(error):
    """A device that holds 40 tokens: the stack of the first try has more, so has the whole batch."""
    lm = LanguageModel(tiny("gpt2"), None, name="gpt2")
    run, batch = run_of(lm), make_batch(TEXTS, has_bos=True)
    whole = {key[:3]: key[3] for _, found in fitting(batch, 200, run) for key in found}
    limit, passes = 40, []

    def refuse(_, args, kwargs):
        size = kwargs["input_ids"].numel()
        if size > limit:
            raise error
        passes.append(size)

    handle = lm.hf.register_forward_pre_hook(refuse, with_kwargs=True)
    parts = list(fitting(batch, 200, run))
    assert len(parts) > 1
    assert sorted(i.item.item for part, _ in parts for i in part.items) == sorted(i.item.item for i in TEXTS)
    split = {key[:3]: key[3] for _, found in parts for key in found}
    assert split.keys() == whole.keys()
    np.testing.assert_allclose([split[key] for key in whole], list(whole.values()), rtol=1e-5)
    assert max(passes) <= limit
    limit = 5  # less than the longest item
    with pytest.raises(type(error)):
        list(fitting(batch, 200, run))
    handle.remove()


def test_other_errors_are_not_retried():
    calls = []

    def fail(batch, tokens):
        calls.append(tokens)
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        list(fitting(make_batch(TEXTS, has_bos=True), 100, fail))
    assert calls == [100]


def test_memory_of_the_clean_activations_does_not_grow_with_conditions():
    """Every kept tensor is one state, scale, query, key or value per token of the batch."""
    lm = LanguageModel(tiny("llama"), None, name="llama")
    names = ("attention", "mlp", "norm", "attention-pattern", "attention-values", "norm-scale", "final-norm-scale")
    batch = make_batch(TEXTS, has_bos=True)
    plans = [planned(name, (1, 2), lm.anatomy, (0,)) for name in names]
    _, kept = clean_activations(engine_of(lm, (0,)), batch, plans)
    tokens = batch.ids.numel()
    assert len(kept.outputs) == 8  # attention, MLP and two norms in two blocks
    assert all(hidden_of(t).numel() == tokens * lm.width for t in kept.outputs.values())
    assert all(s.value.numel() == tokens for s in kept.scales.values())
    assert len(kept.scales) == 5
    assert all(h.query.numel() + h.key.numel() + h.value.numel() == tokens * lm.width * 2 for h in kept.heads.values())
    assert not kept.residuals
