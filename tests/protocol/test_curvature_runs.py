"""Curvature as an experiment of a run: rows against central differences of the sweep's own draws, and the summary."""

import numpy as np
import pytest
from made_runs import KEYS, RAN_ON, assert_same, parts, run, write_data

import polarlens as pl
from engine.oracle import noise_of, perturb_rows, plain_nll
from polarlens.data import read_texts
from polarlens.engine.encoding import encode_texts
from polarlens.perturbation import MATCHED
from tiny import save_tiny

PROBED = [*KEYS, "block"]
ALONE = RAN_ON | {"experiments": ["curvature"]}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return pl.load(str(save_tiny(tmp_path_factory.mktemp("model"), "gpt2")), dtype="float64")


@pytest.fixture(scope="module")
def done(lm, files, tmp_path_factory):
    return run(lm, out=tmp_path_factory.mktemp("run"), dtype="float64", **files, **ALONE)


def test_rows_are_the_second_differences_of_the_sweeps_draws(lm, files, done):
    rows = done.table("curvature")
    items = encode_texts(read_texts(files["text"]).items, lm.tokenizer, 0, max_tokens=64, window=lm.window).items
    delta = 0.01
    for encoded in items[:2]:
        (ids,), (sequence,) = encoded.sequences, encoded.noise
        everyone = np.ones(len(ids), dtype=bool)
        clean = plain_nll(lm.hf, lm.blocks, ids, {}).sum()
        for block, seed in ((1, 0), (2, 1)):
            part = rows[(rows.item == encoded.item.item) & (rows.block == block) & (rows.seed == seed)]
            assert part.nll.item() == pytest.approx(clean, rel=1e-9)
            damage = {}
            for arm in ("magnitude", "angular"):
                noise = noise_of(MATCHED, arm, seed, block, sequence, lm.width)
                both = [
                    plain_nll(
                        lm.hf,
                        lm.blocks,
                        ids,
                        {block: perturb_rows(arm, delta, "relative", noise, sign, everyone)},
                    ).sum()
                    for sign in (1, -1)
                ]
                damage[arm] = (sum(both) / 2 - clean) / delta**2
            assert part.radial.item() / 2 == pytest.approx(damage["magnitude"], rel=5e-3)
            assert (part.tangential.item() - part.gradient.item()) / 2 == pytest.approx(damage["angular"], rel=5e-3)


def test_the_summary_comes_from_the_rows(done):
    rows = done.table("curvature")
    assert not rows.duplicated(PROBED).any()
    assert len(rows) == 4 * 2 * 2  # items, blocks, probes
    assert done.summary["complete"]
    tokens = rows.drop_duplicates("item").n_tokens.sum()
    cells = [c for c in done.summary["cells"] if c["experiment"] == "curvature" and c["measure"] == "curvature"]
    assert len(cells) == 4
    for cell in cells:
        part = rows[rows.block == cell["block"]]
        value = part.radial if cell["arm"] == "magnitude" else part.tangential - part.gradient
        assert cell["mean"] == pytest.approx(value.groupby(part.item).mean().sum() / 2 / tokens, rel=1e-9)
        assert (cell["policy_id"], cell["positions"], cell["layers"]) == ("matched", "all", str(cell["block"]))
        assert (cell["n_items"], cell["n_seeds"]) == (4, 2)
    named = {"experiment", "task", "measure", "delta", "layers", "positions", "policy_id", "kind", "value", "ci95"}
    assert all(named <= c.keys() for c in done.summary["contrasts"] if c["experiment"] == "curvature")


def test_growing_and_other_budgets(lm, files, done, tmp_path):
    options = {"dtype": "float64", **files}
    run(lm, out=tmp_path, batch_tokens=1, **options, **(ALONE | {"seeds": 1}))
    before = parts(tmp_path)
    grown = run(lm, out=tmp_path, **options, **ALONE)
    assert before.items() <= parts(tmp_path).items()
    assert_same(grown.table("curvature"), done.table("curvature"), PROBED)
    before = parts(tmp_path)
    again = run(lm, out=tmp_path, limit=1, **options, **(ALONE | {"seeds": 1}))
    assert parts(tmp_path) == before
    assert again.summary == grown.summary


def test_skipped_without_texts_and_told_of_kinks(files, tmp_path):
    opt = pl.load(str(save_tiny(tmp_path / "m", "opt")))
    small = {"limit": 1, **(ALONE | {"seeds": 1, "layers": "1"})}
    found = run(opt, out=tmp_path / "a", pairs=files["pairs"], **small)
    (entry,) = [e for e in found.summary["skipped"] if e["experiment"] == "curvature"]
    assert "--text was not given" in entry["why"]
    found = run(opt, out=tmp_path / "a", text=files["text"], **small)
    (entry,) = [e for e in found.summary["skipped"] if e["experiment"] == "curvature"]
    assert entry["what"] == "kinks"
    cells = [c for c in found.summary["cells"] if c["experiment"] == "curvature"]
    assert all(c["ci95"] is None and "one item" in c["why"] for c in cells)
