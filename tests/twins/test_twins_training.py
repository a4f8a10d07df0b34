"""Training the twins: equal starts, one order of data, a schedule, and runs that go on bit for bit."""

import dataclasses

import numpy as np
import pytest
import torch

from polarlens.twins.architecture import build, weights_digest
from polarlens.twins.batches import order_digest, rows_of, training_rows
from polarlens.twins.corpus import Corpus
from polarlens.twins.generated import never_trained_on, training_documents
from polarlens.twins.recipe import NORMS, Recipe
from polarlens.twins.tokenizer import BOS, train_tokenizer
from polarlens.twins.training import learning_rate, load_checkpoint, train

SMALL = Recipe(
    steps=6, batch=2, length=16, vocabulary=300, width=24, mlp_width=32, n_layers=2, n_heads=2, learning_rate=1e-2
)


def rows(recipe=SMALL):
    rng = np.random.default_rng(0)
    return rng.integers(0, recipe.vocabulary, (recipe.steps * recipe.batch, recipe.length)).astype(np.uint16)


def final(path):
    return torch.load(path, weights_only=True)["model"]


def nothing(step, loss):
    pass


class TestTwins:
    def test_they_start_equal_and_the_seed_alone_decides(self):
        first = {norm: weights_digest(build(norm, SMALL)) for norm in NORMS}
        torch.manual_seed(99)  # the caller's random state has no say, and is left alone
        before = torch.get_rng_state()
        again = {norm: weights_digest(build(norm, SMALL)) for norm in NORMS}
        assert torch.equal(torch.get_rng_state(), before)
        assert len({*first.values(), *again.values()}) == 1
        assert weights_digest(build("rmsnorm", dataclasses.replace(SMALL, seed=1))) not in first.values()

    def test_they_differ_in_subtracting_the_mean_alone(self):
        layer, rms = (build(norm, SMALL) for norm in NORMS)
        ids = torch.arange(12)[None]
        x = torch.randn(3, SMALL.width)
        norm = layer.model.layers[0].input_layernorm
        assert not torch.allclose(layer(ids).logits, rms(ids).logits)
        # RMSNorm of what has no mean is LayerNorm: eps and gains are the same.
        centred = x - x.mean(-1, keepdim=True)
        torch.testing.assert_close(norm(x), rms.model.layers[0].input_layernorm(centred))
        # With LayerNorm put into the Llama the two models are one: everything else is equal.
        for ours, theirs in zip(rms.model.layers, layer.model.layers, strict=True):
            ours.input_layernorm = theirs.input_layernorm
            ours.post_attention_layernorm = theirs.post_attention_layernorm
        rms.model.norm = layer.model.norm
        torch.testing.assert_close(layer(ids).logits, rms(ids).logits, rtol=1e-5, atol=1e-6)


class TestTraining:
    @pytest.mark.parametrize("norm", NORMS)
    def test_an_interrupted_run_ends_bit_for_bit_as_an_uninterrupted_one(self, norm, tmp_path):
        seen = []
        train(norm, SMALL, rows(), tmp_path / "whole.pt", lambda step, loss: seen.append((step, loss)))
        assert [step for step, _ in seen] == [1, 2, 3, 4, 5, 6]
        steps = iter([False, False, True])
        train(norm, SMALL, rows(), tmp_path / "parts.pt", nothing, lambda: next(steps))
        assert load_checkpoint(tmp_path / "parts.pt", SMALL)["step"] == 3
        train(norm, SMALL, rows(), tmp_path / "parts.pt", nothing)
        whole, parts = final(tmp_path / "whole.pt"), final(tmp_path / "parts.pt")
        assert all(torch.equal(whole[name], parts[name]) for name in whole)
        assert seen[-1][1] < seen[0][1] + 1  # finite, not blown up

    def test_biases_of_the_layer_norms_stay_zero(self, tmp_path):
        train("layernorm", SMALL, rows(), tmp_path / "x.pt", nothing)
        biases = {name: value for name, value in final(tmp_path / "x.pt").items() if name.endswith("norm.bias")}
        assert len(biases) == 2 * SMALL.n_layers + 1
        assert not any(value.any() for value in biases.values())

    def test_one_step_is_adamw_by_hand(self, tmp_path):
        recipe = dataclasses.replace(SMALL, steps=1, clip=1e9, weight_decay=0.0)
        model = build("rmsnorm", recipe)
        ids = torch.from_numpy(rows(recipe)[: recipe.batch].astype(np.int64))
        logp = torch.log_softmax(model(ids).logits[:, :-1].double(), -1)
        (-logp.gather(-1, ids[:, 1:, None]).mean()).backward()
        # the first step of Adam moves each weight by lr * g / (|g| + eps)
        weight = model.model.layers[0].mlp.up_proj.weight
        expected = weight - recipe.learning_rate * weight.grad / (weight.grad.abs() + 1e-8)
        train("rmsnorm", recipe, rows(recipe), tmp_path / "x.pt", nothing)
        found = final(tmp_path / "x.pt")["model.layers.0.mlp.up_proj.weight"]
        decided = weight.grad.abs() > 1e-6  # elsewhere rounding decides the quotient
        torch.testing.assert_close(found[decided], expected[decided], rtol=1e-3, atol=1e-5)

    def test_a_checkpoint_of_another_recipe_is_not_used(self, tmp_path):
        train("rmsnorm", SMALL, rows(), tmp_path / "x.pt", nothing)
        assert load_checkpoint(tmp_path / "x.pt", dataclasses.replace(SMALL, seed=5)) is None

    def test_the_rate_rises_and_falls_to_zero_after_the_last_step(self):
        recipe = Recipe(steps=1000, warmup=0.1, learning_rate=1.0)
        rates = [learning_rate(step, recipe) for step in range(1000)]
        assert rates[0] == pytest.approx(0.01)
        assert rates[99] == pytest.approx(1.0)
        assert max(rates) <= 1.0
        assert np.diff(rates[100:]).max() < 0
        assert rates[-1] == pytest.approx(1 / 900)
        assert learning_rate(0, Recipe(steps=1)) == Recipe(steps=1).learning_rate


class TestData:
    @pytest.fixture(scope="class")
    def corpus(self):
        paragraphs = tuple(f"It was the {n}th day, and nothing had been heard of the {n} ships." for n in range(400))
        return Corpus(paragraphs, ("Held out.",), ("a.txt",), (), "digest")

    @pytest.fixture(scope="class")
    def tokenizer(self, corpus):
        return train_tokenizer(corpus.training, 300, 16)

    def test_rows_lose_no_token_and_begin_with_bos(self, corpus, tokenizer):
        found = np.stack(list(rows_of(corpus.training, tokenizer, 16)))
        assert (found[:, 0] == tokenizer.bos_token_id).all()
        stream = [i for text in corpus.training for i in tokenizer(BOS + text, add_special_tokens=False)["input_ids"]]
        np.testing.assert_array_equal(found[:, 1:].ravel(), stream[: found[:, 1:].size])
        assert len(stream) - found[:, 1:].size < 15

    def test_the_tokenizer_puts_bos_first_and_loses_nothing(self, tokenizer):
        text = "Ünïcode, ‘quotes’ – and\ttabs."
        assert tokenizer(text)["input_ids"][0] == tokenizer.bos_token_id == 0
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text
        assert len(tokenizer) == 300

    def test_the_share_of_generated_rows_and_the_order_are_the_recipes(self, corpus, tokenizer):
        recipe = dataclasses.replace(SMALL, steps=300, generated=0.3)
        found = training_rows(corpus, tokenizer, recipe)
        again = training_rows(corpus, tokenizer, recipe)
        assert found.shape == (600, 16)
        np.testing.assert_array_equal(found, again)
        assert order_digest(found, 2) == order_digest(again, 2)
        other = training_rows(corpus, tokenizer, dataclasses.replace(recipe, seed=1))
        assert order_digest(other, 2) != order_digest(found, 2)
        # book rows are repeated only after all of them have been used
        books = {row.tobytes() for row in rows_of(corpus.training, tokenizer, 16)}
        assert sum(row.tobytes() in books for row in found) == pytest.approx(0.7 * 600, abs=5)

    def test_nothing_that_is_bundled_or_held_out_is_trained_on(self):
        documents = training_documents(0)
        seen = {next(documents) for _ in range(20_000)}
        assert not seen & never_trained_on()
        assert len(seen) > 15_000
