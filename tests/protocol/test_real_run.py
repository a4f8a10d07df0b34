"""A real model on real data: baseline scores against another library's, and the command line end to end."""

import json

import numpy as np
import pytest

import polarlens as pl
from polarlens.cli.main import main
from polarlens.data import read_pairs
from polarlens.engine.batching import batches
from polarlens.engine.conditions import Protocol
from polarlens.engine.encoding import encode_pairs
from polarlens.engine.engine import Engine
from polarlens.models.tokens import resolve_bos
from polarlens.perturbation import MATCHED

pytestmark = pytest.mark.smollm2

# Scored with minicons 0.3.39 (IncrementalLMScorer, bos_token=True, summed) on the same dequantised weights, float32.
MINICONS = {
    "regular_plural_subject_verb_agreement_1": {
        "accuracy": 79.0,
        "good": [-50.847, -71.271, -68.054, -56.578],
        "bad": [-54.131, -72.936, -68.651, -59.863],
    },
    "irregular_plural_subject_verb_agreement_1": {
        "accuracy": 74.0,
        "good": [-71.299, -58.31, -76.37, -57.423],
        "bad": [-70.519, -64.619, -73.112, -64.715],
    },
}


@pytest.mark.parametrize("name", MINICONS)
def test_clean_pair_scores_agree_with_minicons(smollm2, shared_data, name):
    pairs = read_pairs([str(shared_data / "blimp" / f"{name}.jsonl")], limit=100)
    bos = resolve_bos(smollm2.tokenizer, "auto")
    assert bos.token == "<|im_start|>"
    items = encode_pairs(pairs.items, smollm2.tokenizer, bos.id, window=smollm2.window).items
    engine = Engine(smollm2, Protocol((8,), "relative", {"p": MATCHED}), kl=False)
    scores = {}
    for batch in batches(items, 2048, has_bos=True):
        logp = -batch.sum_rows(engine.clean(batch).nll).numpy().reshape(-1, 2)
        scores |= {encoded.item.item: row for encoded, row in zip(batch.items, logp, strict=True)}
    logp = np.array([scores[pair.item] for pair in pairs.items])
    expected = MINICONS[name]
    np.testing.assert_allclose(logp[:4, 0], expected["good"], atol=1e-3)
    np.testing.assert_allclose(logp[:4, 1], expected["bad"], atol=1e-3)
    assert 100 * (logp[:, 0] > logp[:, 1]).mean() == expected["accuracy"]


def test_the_command_line_end_to_end_on_a_gguf(smollm2_path, shared_data, tmp_path, capsys):
    folder = tmp_path / "smol"
    blimp = shared_data / "blimp"
    command = [
        "run", str(smollm2_path), "--text", str(shared_data / "wikitext2" / "test.txt"), "--layers", "8-15",
        "--pairs", str(blimp / "regular_plural_subject_verb_agreement_1.jsonl"),
        "--pairs", str(blimp / "irregular_plural_subject_verb_agreement_1.jsonl"),
        "--limit", "4", "--delta", "0.1", "--seeds", "1", "--positions", "all", "--out", str(folder), "--json",
    ]  # fmt: skip
    assert main(command) == 0
    printed = json.loads(capsys.readouterr().out)
    run = pl.Run.open(folder)
    assert printed == run.summary
    assert run.manifest["model"]["source"]["quantisation"] == "Q4_1"
    assert len(run.manifest["state_profile"]["blocks"]) == 30
    assert run.summary["baseline"]["pairs"]["n_items"] == 8
    rows = run.table("sweep")
    moved = rows[rows.delta > 0]
    assert moved.realised_delta_max_error.max() < 1e-3
    control = rows[(rows.arm == "angular") & (rows.delta == 0) & (rows.task == "loss")].set_index("item").nll
    clean = rows[(rows.arm == "clean") & (rows.task == "loss")].set_index("item").nll
    assert (control.sort_index() == clean.sort_index()).all()
    assert (folder / "report.html").stat().st_size > 10_000
    assert {p.suffix for p in (folder / "figures").iterdir()} == {".svg", ".png", ".csv"}
