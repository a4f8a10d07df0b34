"""Scores against float64 definitions, the output embedding's position selection, and sums per item."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polarlens.engine.batching import batches, make_batch
from polarlens.engine.scoring import log_probabilities, only_positions, score
from tiny import FAMILIES, tiny

from .made import TEXTS, encoded_text, random_ids


def logits(n: int, vocabulary: int, scale: float, seed: int) -> torch.Tensor:
    return scale * torch.randn(n, vocabulary, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("n", [1, 63, 64, 130])
def test_nll_and_kl_against_float64(n, scale):
    p, q = logits(n, 5000, scale, 0), logits(n, 5000, scale, 1)
    targets = torch.randint(0, 5000, (n,), generator=torch.Generator().manual_seed(2))
    nll, kl = score(q, targets, log_probabilities(p))
    logp, logq = torch.log_softmax(p.double(), -1), torch.log_softmax(q.double(), -1)
    torch.testing.assert_close(nll, -logq.gather(-1, targets[:, None])[:, 0], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(kl, (logp.exp() * (logp - logq)).sum(-1), rtol=1e-5, atol=1e-6)


def test_small_kl_keeps_its_digits():
    """KL of 1e-9 nats, far below the rounding of the log-probabilities themselves."""
    p = logits(8, 50_000, 3.0, 0).double()
    q = p + 1e-4 * logits(8, 50_000, 1.0, 1).double()
    logp, logq = torch.log_softmax(p, -1), torch.log_softmax(q, -1)
    want = (logp.exp() * (torch.expm1(logq - logp) - (logq - logp))).sum(-1)
    _, kl = score(q.float(), torch.zeros(8, dtype=torch.long), log_probabilities(p.float()))
    assert (want < 1e-8).all()
    torch.testing.assert_close(kl, want, rtol=0.02, atol=0)


def test_kl_survives_a_distribution_turned_upside_down():
    p = torch.zeros(1, 50)
    p[0, 0], q = 200.0, torch.zeros(1, 50)
    q[0, 1] = 200.0
    _, kl = score(q, torch.tensor([0]), log_probabilities(p))
    assert kl.item() == pytest.approx(200.0, rel=1e-6)


def test_equal_logits_give_exactly_no_kl():
    x = logits(70, 1000, 5.0, 0)
    _, kl = score(x.clone(), torch.zeros(70, dtype=torch.long), log_probabilities(x))
    assert kl.tolist() == [0.0] * 70


@pytest.mark.parametrize("family", FAMILIES)
def test_selected_positions_score_as_in_the_full_logits(family):
    """Soft-capping, logit scale and output projections after the embedding apply to the selected rows as to all."""
    model = tiny(family)
    batch = make_batch(TEXTS, has_bos=True)
    head = model.get_output_embeddings()
    with torch.no_grad():
        full = model(input_ids=batch.ids, attention_mask=batch.mask, use_cache=False).logits
        with only_positions(head, batch.scored):
            some = model(input_ids=batch.ids, attention_mask=batch.mask, use_cache=False).logits
    torch.testing.assert_close(some[0], full.reshape(-1, full.shape[-1])[batch.scored], rtol=1e-6, atol=1e-6)
    assert not head._forward_pre_hooks


def test_loss_is_summed_per_item_and_never_averaged_per_batch():
    """Seven tokens of 2.0 and one of 6.0 make 20/8 = 2.5 per token; the mean of two means, 4.0, is the wrong answer."""
    items = [encoded_text("seven", random_ids(8, 0)), encoded_text("one", random_ids(2, 1))]
    for tokens in (1, 100):
        total = count = 0.0
        for batch in batches(items, tokens, has_bos=False):
            values = torch.tensor([2.0 if batch.items[r].longest == 8 else 6.0 for r in batch.row_of.tolist()])
            total += batch.sum_rows(values).sum().item()
            count += len(values)
        assert total / count == 2.5


@given(st.lists(st.integers(2, 40), min_size=1, max_size=30), st.integers(1, 200))
def test_every_item_is_in_one_batch_within_the_budget(lengths, tokens):
    items = [encoded_text(f"i{k}", random_ids(n, k)) for k, n in enumerate(lengths)]
    made = list(batches(items, tokens, has_bos=False))
    assert sorted(e.item.item for b in made for e in b.items) == sorted(e.item.item for e in items)
    for batch in made:
        assert len(batch.items) == 1 or batch.ids.numel() <= tokens
        for row, encoded in enumerate(batch.items):
            ids = encoded.sequences[0]
            assert batch.ids[row, : len(ids)].tolist() == list(ids)
            assert batch.mask[row].tolist() == [1] * len(ids) + [0] * (batch.shape[1] - len(ids))
            mine = batch.row_of == row
            assert batch.targets[mine].tolist() == list(ids[1:])
            np.testing.assert_array_equal(batch.scored[mine] - row * batch.shape[1], np.arange(len(ids) - 1))
