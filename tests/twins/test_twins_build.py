"""`twins train` from text to cards at a small size, and what the cards' numbers are."""

import json
import math
import shutil
from functools import partial

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import polarlens as pl
from polarlens.data import read_pairs
from polarlens.english import pairs, write_pairs
from polarlens.errors import UsageError
from polarlens.twins import build, evaluation, generated
from polarlens.twins.build import build_twins
from polarlens.twins.cards import write_cards
from polarlens.twins.corpus import read_corpus
from polarlens.twins.recipe import NORMS, Recipe

SMALL = partial(Recipe, batch=4, length=32, vocabulary=400, width=24, mlp_width=32, n_layers=2, n_heads=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("twins")
    words = np.random.default_rng(0).choice(["the ships", "sailed", "slowly", "home", "and nobody", "spoke"], 60_000)
    (folder / "text.txt").write_text("\n\n".join(" ".join(words[n : n + 40]) + "." for n in range(0, 60_000, 40)))
    write_pairs(folder / "some.jsonl", pairs(5, 14))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "Recipe", SMALL)
        patch.setattr(build, "_TOKENIZER_DOCUMENTS", 200)
        few = generated.held_out_pairs()[:70]
        patch.setattr(evaluation, "held_out_pairs", lambda: few)
        out = build_twins(
            [folder / "text.txt"], folder / "out", pairs=[str(folder / "some.jsonl")], steps=3, quiet=True
        )
        again = build_twins(
            [folder / "text.txt"], folder / "out", pairs=[str(folder / "some.jsonl")], steps=3, quiet=True
        )
        assert out == again
        with pytest.raises(UsageError, match="another training run: steps 3 and now 4"):
            build_twins([folder / "text.txt"], folder / "out", steps=4, quiet=True)
    return folder


def test_both_load_anywhere_and_share_a_tokenizer(made):
    tokenizers = []
    for norm in NORMS:
        folder = made / "out" / f"twin-{norm}"
        model = AutoModelForCausalLM.from_pretrained(folder)
        assert model.config.architectures[0] in ("LlamaForCausalLM", "StableLmForCausalLM")
        assert model.get_input_embeddings().weight.data_ptr() == model.get_output_embeddings().weight.data_ptr()
        tokenizers.append(AutoTokenizer.from_pretrained(folder).get_vocab())
        assert pl.load(folder).norm_kind == norm
    assert tokenizers[0] == tokenizers[1]


def test_the_records_prove_one_recipe_one_start_one_order(made):
    records = [json.loads((made / "out" / f"twin-{norm}" / "training.json").read_text()) for norm in NORMS]
    for key in ("recipe", "text", "initial_weights_sha256", "first_1000_batches_sha256", "versions"):
        assert records[0][key] == records[1][key]
    assert records[0]["recipe"]["steps"] == 3


def test_the_cards_numbers_are_those_of_the_files(made):
    found = json.loads((made / "out" / "evaluation.json").read_text())
    corpus = read_corpus([made / "text.txt"])
    for norm in NORMS:
        folder = made / "out" / f"twin-{norm}"
        model, tokenizer = AutoModelForCausalLM.from_pretrained(folder).float(), AutoTokenizer.from_pretrained(folder)
        stream = [i for text in corpus.held_out for i in tokenizer(text)["input_ids"]]
        total, count = 0.0, 0
        for start in range(0, len(stream) - 30, 31):
            ids = torch.tensor([[0, *stream[start : start + 31]]])
            with torch.no_grad():
                logp = torch.log_softmax(model(ids).logits[0, :-1].double(), -1)
            total -= logp.gather(-1, ids[0, 1:, None]).sum().item()
            count += 31
        nll = found["held_out"]["nll"][norm]
        assert nll["mean"] == pytest.approx(total / count, rel=1e-5)
        assert nll["ci95"][0] < nll["mean"] < nll["ci95"][1]
        right = []
        for pair in read_pairs([str(made / "some.jsonl")]).items:
            if max(len(tokenizer(text)["input_ids"]) for text in (pair.good, pair.bad)) > 32:
                continue  # longer than the window
            scores = []
            for text in (pair.good, pair.bad):
                ids = torch.tensor([tokenizer(text)["input_ids"]])
                with torch.no_grad():
                    logp = torch.log_softmax(model(ids).logits[0, :-1].double(), -1)
                scores.append(logp.gather(-1, ids[0, 1:, None]).sum().item())
            right.append(scores[0] > scores[1])
        assert found["files"]["some"][norm]["pairs"] == len(right) > 10
        assert found["files"]["some"][norm]["mean"] == pytest.approx(100 * np.mean(right))
        card = (folder / "README.md").read_text()
        assert f"{nll['mean']:.3f} [" in card
        assert "3 steps of 4 rows" in card
        assert f"| {found['files']['some'][norm]['mean']:.1f}" in card
    difference = found["held_out"]["difference"]
    losses = [found["held_out"]["nll"][norm]["mean"] for norm in NORMS]
    assert difference["mean"] == pytest.approx(losses[0] - losses[1])
    assert math.isfinite(found["held_out"]["relative_difference"])


def test_generated_accuracy_tells_opposite_attractors_apart(made):
    lm = pl.load(made / "out" / "twin-rmsnorm")
    window = 32
    few = [
        pair
        for pair in generated.held_out_pairs()[:70]
        if max(len(lm.tokenizer(text)["input_ids"]) for text in (pair.good, pair.bad)) <= window
    ]
    found = evaluation.generated_accuracy(lm, few)
    opposite = [p for p in few if p.attractor_number not in (None, p.number)]
    assert found["all"]["pairs"] == len(few) > 40
    assert found["all with an opposite attractor"]["pairs"] == len(opposite)
    verbs = [p for p in few if p.phenomenon not in ("determiner_noun_agreement", "reflexive_agreement")]
    assert found["all subject-verb agreement"]["pairs"] == len(verbs)


def test_other_text_does_not_count_as_held_out(made, tmp_path):
    (tmp_path / "other.txt").write_text("some other words in a line\n\n" * 20_000)
    with pytest.raises(UsageError, match="not the text that the twins were trained on"):
        write_cards(made / "out", read_corpus([tmp_path / "other.txt"]), ())


def test_pairs_from_other_seeds_stand_in_the_card(made, tmp_path, monkeypatch):
    further = tmp_path / "seed7"
    shutil.copytree(made / "out", further)
    record = json.loads((further / "twin-layernorm" / "training.json").read_text())
    record["recipe"] |= {"seed": 7, "steps": 1}
    (further / "twin-layernorm" / "training.json").write_text(json.dumps(record))
    found = json.loads((further / "evaluation.json").read_text())
    monkeypatch.setattr(evaluation, "evaluate", lambda *_: found)  # measured above; here the card is the matter
    corpus = read_corpus([made / "text.txt"])
    shutil.copytree(made / "out", tmp_path / "out")
    write_cards(tmp_path / "out", corpus, (), [further])
    card = (tmp_path / "out" / "twin-rmsnorm" / "README.md").read_text()
    (line,) = (line for line in card.splitlines() if line.startswith("| 7 | 1 | "))
    held_out = found["held_out"]
    assert f"{held_out['nll']['layernorm']['mean']:.3f} [" in line.split("|")[3]
    assert f" {held_out['difference']['mean']:+.4f} [" in line.split("|")[4]
    (pair,) = json.loads((tmp_path / "out" / "evaluation.json").read_text())["further_pairs"]
    assert (pair["seed"], pair["steps"], pair["held_out"]) == (7, 1, held_out)

    record["recipe"]["width"] = 48
    (further / "twin-layernorm" / "training.json").write_text(json.dumps(record))
    with pytest.raises(UsageError, match="differs in more than its seed and its steps"):
        write_cards(tmp_path / "out", corpus, (), [further])
    record["recipe"]["width"] = 24
    (further / "twin-layernorm" / "training.json").write_text(json.dumps(record))
    (further / "evaluation.json").unlink()
    with pytest.raises(UsageError, match="not evaluated"):
        write_cards(tmp_path / "out", corpus, (), [further])
