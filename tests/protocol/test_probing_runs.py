"""Probing as an experiment of a run: its rows, resuming and extending, what is refused, what is skipped."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_runs import KEYS, RAN_ON, assert_same, parts, run, write_data

import polarlens as pl
from polarlens.data import read_trees
from polarlens.engine.conditions import Condition, Protocol
from polarlens.engine.engine import Engine
from polarlens.english import sentences, write_conllu
from polarlens.errors import UsageError
from polarlens.perturbation import MATCHED
from polarlens.probing import align_trees, probe
from polarlens.protocol.config import RunConfig, resolved, sources
from tiny import save_tiny

PROBED = ["block", "representation", "target", "metric", "pooling", "after_arm"]
ALONE = RAN_ON | {"experiments": ["probing"]}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_conllu(folder / "trees.conllu", sentences(1, 60))
    return write_data(folder) | {"treebank": str(folder / "trees.conllu")}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("model"), "llama"))


@pytest.fixture(scope="module")
def lm(model):
    return pl.load(model)


@pytest.fixture(scope="module")
def done(lm, files, tmp_path_factory):
    return run(lm, out=tmp_path_factory.mktemp("run"), **files, **ALONE)


def of_probes(rows):
    return rows[rows.score.notna()].sort_values(["item", *PROBED, "seed", "sign"]).reset_index(drop=True)


def of_blocks(rows):
    return rows[rows.task.notna()]


def test_rows_are_those_of_the_probes(lm, files, done):
    trees = align_trees(read_trees([files["treebank"]]).items, lm.tokenizer, 0, window=lm.window)
    probed = probe(lm, trees, has_bos=True)
    engine = Engine(lm, Protocol((1, 2), "relative", {"matched": MATCHED}), kl=False)
    conditions = [
        Condition("matched", "all", arm, 0.4, seed, sign)
        for arm in ("magnitude", "angular")
        for seed in (0, 1)
        for sign in (1, -1)
    ]
    wanted = of_probes(
        pd.concat([probed.clean(), *(frame for _, frame, _ in probed.after(engine, conditions))]).assign(task=None)
    )
    rows = of_probes(done.table("probing"))
    same = ["item", "n_words", *PROBED, "seed", "sign", "score", "weight"]
    a, b = (one[same].astype(object).where(one[same].notna(), None) for one in (rows, wanted))
    pd.testing.assert_frame_equal(a, b)
    assert rows[["task", "arm", "nll", "phenomenon"]].isna().all().all()
    after = rows[rows.after_arm.notna()]
    assert set(after.layers) == {"1-2"}
    assert set(after.block) == {1, 2}
    assert rows[rows.after_arm.isna()].layers.isna().all()
    held_out = {tree.tree.item for tree in probed.trees}
    assert set(rows.item) == held_out
    assert 0 < len(held_out) < 60 / 3


def test_single_blocks_are_those_of_a_sweep_at_each_block(lm, files, done, tmp_path):
    swept = run(
        lm, out=tmp_path, text=files["text"], pairs=files["pairs"],
        **(RAN_ON | {"layers": "each", "experiments": ["sweep"], "positions": "all"}),
    ).table("sweep")  # fmt: skip
    swept = swept[(swept.delta > 0) & (swept.policy_id != "matched-independent")]
    here = of_blocks(done.table("probing"))
    here = here[here.delta > 0].drop(columns="experiment")[[c for c in swept.columns if c != "experiment"]]
    assert_same(here, swept.drop(columns="experiment"), KEYS)
    assert set(here.layers) == {"0", "1", "2"}


def test_the_summary_tells_all_parts(done):
    cells = [one for one in done.summary["cells"] if one["experiment"] == "probing"]
    assert {one["measure"] for one in cells} >= {"score", "drop", "nll", "accuracy"}
    claims = {one["id"]: one for one in done.summary["claims"]}
    for id_ in ("C6", "C7"):
        assert claims[id_]["status"] != "not_run"
        assert "block 1" in claims[id_]["why"]
    (direction, norm) = (
        next(
            one["mean"]
            for one in cells
            if (one["measure"], one.get("block"), one.get("representation")) == ("score", 1, name)
            and (one["metric"], one.get("pooling"), one.get("after_arm")) == ("accuracy", "last", None)
        )
        for name in ("direction", "norm")
    )
    assert claims["C6"]["measured"] == pytest.approx(direction - norm)
    (shown,) = [
        one
        for one in cells
        if (one["measure"], one.get("block"), one.get("representation")) == ("score", 1, "norm")
        and (one["metric"], one["target"], one.get("pooling"), one.get("after_arm")) == ("gain", "depth", "last", None)
    ]
    assert (claims["C7"]["measured"], claims["C7"]["ci95"]) == (shown["mean"], shown["ci95"])
    manifest = done.manifest["data"]["trees"]
    assert (manifest["items"], manifest["unaligned"]) == (60, 0)
    assert manifest["words"] > 300
    assert done.summary["complete"]
    json.dumps(done.summary, allow_nan=False)


def test_interrupted_grown_and_repeated(lm, files, done, tmp_path):
    run(lm, out=tmp_path, **files, **(ALONE | {"seeds": 1}))
    before = parts(tmp_path)
    grown = run(lm, out=tmp_path, **files, **ALONE)
    assert before.items() <= parts(tmp_path).items()
    pd.testing.assert_frame_equal(of_probes(grown.table("probing")), of_probes(done.table("probing")))
    lost = sorted((tmp_path / "rows" / "probing").glob("*.parquet"))
    for path in lost[::2]:
        path.unlink()
    run(lm, out=tmp_path, **files, **(ALONE | {"seeds": 1}))
    again = run(lm, out=tmp_path, **files, **ALONE)
    pd.testing.assert_frame_equal(of_probes(again.table("probing")), of_probes(done.table("probing")))
    assert again.summary["cells"] == grown.summary["cells"]
    before = parts(tmp_path)
    run(lm, out=tmp_path, **files, **ALONE)
    assert parts(tmp_path) == before


def test_budgets_and_the_order_of_sentences_do_not_matter(lm, files, done, tmp_path):
    blocks = Path(files["treebank"]).read_text().strip().split("\n\n")
    (tmp_path / "trees.conllu").write_text("\n\n".join(reversed(blocks)) + "\n\n")
    found = run(lm, out=tmp_path / "o", treebank=str(tmp_path / "trees.conllu"), batch_tokens=70, **ALONE)
    a, b = of_probes(found.table("probing")), of_probes(done.table("probing"))
    # a word on the edge between two labels may fall on either side of it
    assert (a.score - b.score).abs().gt(0.02 * b.weight.abs() + 0.02).mean() < 0.01
    assert np.array_equal(a[["item", "n_words"]], b[["item", "n_words"]])


def test_another_treebank_is_refused(lm, files, done, tmp_path):
    run(lm, out=tmp_path / "o", treebank=files["treebank"], **(ALONE | {"seeds": 1}))
    before = parts(tmp_path / "o")
    text = Path(files["treebank"]).read_text()
    (tmp_path / "trees.conllu").write_text("\n\n".join(text.strip().split("\n\n")[:55]) + "\n\n")
    with pytest.raises(UsageError, match="60 items of the task trees"):
        run(lm, out=tmp_path / "o", treebank=str(tmp_path / "trees.conllu"), **(ALONE | {"seeds": 1}))
    (tmp_path / "trees.conllu").write_text(text.replace("\tNOUN\t", "\tPROPN\t", 1))
    with pytest.raises(UsageError, match="other parts of speech or heads"):
        run(lm, out=tmp_path / "o", treebank=str(tmp_path / "trees.conllu"), **(ALONE | {"seeds": 1}))
    assert parts(tmp_path / "o") == before


def test_without_texts_and_pairs_the_rest_is_there(lm, files, tmp_path):
    found = run(lm, out=tmp_path, treebank=files["treebank"], limit=7, **(ALONE | {"seeds": 1}))
    assert of_blocks(found.table("probing")).empty
    assert found.manifest["data"]["trees"]["items"] == 50  # what probes need at least
    assert {one["what"] for one in found.summary["skipped"]} == {
        "single blocks, task loss",
        "single blocks, task pairs",
    }
    assert [one["status"] for one in found.summary["claims"] if one["id"] in ("C6", "C7")].count("not_run") == 0


@pytest.mark.parametrize("family", ["gpt2", "opt-post_norm", "falcon-7b", "gemma2", "mixtral"])
def test_families_and_the_last_block(files, tmp_path, family):
    other = pl.load(str(save_tiny(tmp_path / "m", family)))
    options = ALONE | {"layers": "each", "seeds": 1}
    found = run(other, out=tmp_path / "o", treebank=files["treebank"], **options)
    assert found.failed == ()
    rows = of_probes(found.table("probing"))
    after = rows[rows.after_arm.notna()]
    seen = {str(n) for n in range(other.n_layers)}
    if any("last block" in one["what"] for one in found.summary["skipped"]):
        seen.remove(str(other.n_layers - 1))
    assert set(after.layers) == seen
    assert (after.block >= after.layers.astype(int)).all()


def test_the_paper_preset_shares_draws(lm, files, tmp_path):
    options = ALONE | {"delta": None, "preset": "paper"}
    found = run(lm, out=tmp_path, treebank=files["treebank"], **options)
    assert found.failed == ()
    after = of_probes(found.table("probing"))
    after = after[after.after_arm.notna()]
    assert set(after.delta) == {5.0}
    assert after.sign.isna().all()
    assert all(one["ci95"] for one in found.summary["cells"] if one["measure"] == "drop" and one["mean"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: "\n\n".join(text.split("\n\n")[:20]) + "\n\n", "20 sentences are too few for probes"),
        (lambda text: re.sub(r"(?m)^((?:[^\t\n]+\t){3})[A-Z]+", r"\1X", text), "one value of upos: only 'X'"),
        (lambda text: "", "empty"),
        (lambda text: "# text = a\n\n", "no trees"),
        (lambda text: text.replace("\t0\troot", "\t99\troot", 1), "99"),
    ],
    ids=["few", "one tag", "empty", "no trees", "head"],
)
def test_bad_treebanks_write_nothing(lm, files, tmp_path, change, said):
    (tmp_path / "trees.conllu").write_text(change(Path(files["treebank"]).read_text()))
    with pytest.raises(UsageError, match=said):
        run(lm, out=tmp_path / "o", treebank=str(tmp_path / "trees.conllu"), **ALONE)
    assert not (tmp_path / "o").exists()


def test_what_is_read_and_asked():
    assert resolved(RunConfig(treebank="a.conllu")).experiments == ("sweep", "repair", "propagation", "probing")
    assert resolved(RunConfig()).experiments == ("sweep", "repair", "propagation")
    asked = sources(RunConfig(treebank="a.conllu", text="a.txt", limit=70))
    assert (asked.text, asked.pairs, asked.treebank, asked.treebank_limit) == ("a.txt", (), "a.conllu", 70)
    assert sources(RunConfig(treebank="a.conllu", text="a.txt", limit=7, treebank_limit=300)).treebank_limit == 300
    assert sources(RunConfig(treebank="a.conllu", text="a.txt", experiments="sweep")).treebank is None
    twin = sources(RunConfig(models="twin-rmsnorm", experiments="probing"))
    assert (twin.text, twin.pairs, twin.treebank) == (None, (), "bundled")
    with pytest.raises(UsageError, match="--treebank: probing needs a treebank"):
        sources(RunConfig(models="some/model", experiments="sweep,probing"))
