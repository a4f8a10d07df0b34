"""Propagation as an experiment of a run, against full forwards with plain hooks, one sequence at a time."""

import numpy as np
import pytest
import torch
from made_runs import KEYS, RAN_ON, assert_same, parts, run, write_data

import polarlens as pl
from engine.oracle import noise_of, perturb_rows
from polarlens.engine.encoding import encode_texts
from polarlens.perturbation import MATCHED
from tiny import save_tiny

TRAVELLED = [*KEYS, "block"]
ALONE = RAN_ON | {"experiments": ["propagation"]}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return pl.load(str(save_tiny(tmp_path_factory.mktemp("model"), "gpt_neox", num_hidden_layers=4)))


@pytest.fixture(scope="module")
def done(lm, files, tmp_path_factory):
    return run(lm, out=tmp_path_factory.mktemp("run"), **files, **ALONE)


def block_outputs(lm, ids, edit=None, layer=None):
    found, handles = [], []
    for n, block in enumerate(lm.blocks):

        def hook(_, __, output, n=n):
            hidden = output[0] if isinstance(output, tuple) else output
            if n == layer:
                hidden = torch.from_numpy(edit(hidden[0].double().numpy())).to(hidden.dtype)[None]
            found.append(hidden[0].double().numpy().copy())
            return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

        handles.append(block.register_forward_hook(hook))
    with torch.no_grad():
        lm.hf(input_ids=torch.tensor([ids]), use_cache=False)
    for handle in handles:
        handle.remove()
    return found


def test_rows_are_those_of_two_plain_passes(lm, files, done):
    from polarlens.data import read_texts

    rows = done.table("propagation")
    items = encode_texts(read_texts(files["text"]).items, lm.tokenizer, 0, max_tokens=64, window=lm.window).items
    for encoded in items[:2]:
        (ids,), (sequence,) = encoded.sequences, encoded.noise
        clean = block_outputs(lm, ids)
        for arm in ("magnitude", "angular"):
            for layer, seed, sign in ((1, 0, 1), (2, 1, -1)):
                noise = noise_of(MATCHED, arm, seed, layer, sequence, lm.width)
                edit = perturb_rows(arm, 0.4, "relative", noise, sign, np.ones(len(ids), dtype=bool))
                moved = block_outputs(lm, ids, edit, layer)
                part = rows[(rows.item == encoded.item.item) & (rows.arm == arm) & (rows.layers == str(layer))]
                part = part[(part.seed == seed) & (part.sign == sign)].set_index("block")
                assert list(part.index) == list(range(layer, 4))
                for block in range(layer, 4):
                    a, b = clean[block][1:], moved[block][1:]  # the added BOS is in no mean
                    n, m = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
                    far = np.linalg.norm(a - b, axis=1)
                    cosine = (a * b).sum(1) / (n * m)
                    want = {
                        "distance": far.mean(),
                        "relative": far.mean() / n.mean(),
                        "radial": (m - n).mean(),
                        "angular": (2 * np.sqrt(n * m) * np.sqrt(np.maximum(1 - cosine, 0) / 2)).mean(),
                        "cosine": cosine.mean(),
                    }
                    for name, value in want.items():
                        assert part.loc[block, name] == pytest.approx(value, rel=2e-4, abs=2e-5), (name, block)


def test_what_there_is_and_what_is_null(done):
    rows = done.table("propagation")
    assert not rows.duplicated(TRAVELLED).any()
    assert len(rows) == 4 * 2 * 2 * 2 * (3 + 2)  # items, arms, seeds, members, blocks of both injections
    assert set(rows.task) == {"loss"}
    first = rows.block == rows.layers.astype(int)
    for name in ("attention_entropy", "attention_js", "pre_attention_norm", "norm_statistic"):
        assert rows[first][name].isna().all()
        assert rows[~first][name].notna().all()
    assert (rows.final_norm.notna() == (rows.block == 3)).all()
    assert (rows[~first].norm_statistic == rows[~first].pre_attention_norm).all()
    assert rows[first].distance.to_numpy() == pytest.approx(rows[first].relative * rows[first].distance / 0.4, rel=1e-3)
    assert (rows[~first].attention_js > 0).all()
    assert done.summary["complete"]
    assert done.summary["baseline"]["loss"] is None  # no clean row of any score


def test_amplification_and_c5_come_from_the_rows(done):
    rows = done.table("propagation")
    mean = rows.groupby(["arm", "layers", "block", "item"]).distance.mean().groupby(["arm", "layers", "block"]).mean()
    size = {(arm, n): mean[arm, str(n), 3] / mean[arm, str(n), n] for arm in ("magnitude", "angular") for n in (1, 2)}
    cells = [c for c in done.summary["cells"] if c["measure"] == "amplification"]
    assert {(c["arm"], int(c["layers"])): c["mean"] for c in cells} == pytest.approx(size)
    ratios = {int(c["layers"]): c["value"] for c in done.summary["contrasts"] if c["measure"] == "amplification"}
    assert ratios == pytest.approx({n: size["angular", n] / size["magnitude", n] for n in (1, 2)})
    (c5,) = [claim for claim in done.summary["claims"] if claim["id"] == "C5"]
    assert c5["measured"] == pytest.approx(ratios[1])
    assert "layers 1" in c5["why"]


def test_growing_repeating_and_other_budgets(lm, files, done, tmp_path):
    run(lm, out=tmp_path, batch_tokens=1, **files, **(ALONE | {"seeds": 1}))
    before = parts(tmp_path)
    grown = run(lm, out=tmp_path, **files, **ALONE)
    assert before.items() <= parts(tmp_path).items()
    assert_same(grown.table("propagation"), done.table("propagation"), TRAVELLED, tolerance=1e-4)
    before = parts(tmp_path)
    again = run(lm, out=tmp_path, limit=1, **files, **(ALONE | {"seeds": 1}))
    assert parts(tmp_path) == before
    assert again.summary == grown.summary


def test_skipped_until_texts_are_given_and_above_the_last_block(lm, files, tmp_path):
    small = ALONE | {"seeds": 1, "limit": 1}
    pairs = run(lm, out=tmp_path / "a", pairs=files["pairs"], **(small | {"experiments": ["sweep", "propagation"]}))
    (entry,) = [e for e in pairs.summary["skipped"] if e["experiment"] == "propagation"]
    assert "--text was not given" in entry["why"]
    (c5,) = [claim for claim in pairs.summary["claims"] if claim["id"] == "C5"]
    assert (c5["status"], "--text was not given" in c5["why"]) == ("not_run", True)
    texts = run(lm, out=tmp_path / "a", text=files["text"], **small)
    assert [e for e in texts.summary["skipped"] if e["experiment"] == "propagation"] == []
    again = run(lm, out=tmp_path / "a", pairs=files["pairs"], **small)
    assert [e for e in again.summary["skipped"] if e["experiment"] == "propagation"] == []
    last = run(lm, out=tmp_path / "b", text=files["text"], **(small | {"layers": "3"}))
    (entry,) = [e for e in last.summary["skipped"] if e["experiment"] == "propagation"]
    assert "no block lies above" in entry["why"]


@pytest.mark.parametrize("family", ["bloom", "opt-post_norm", "falcon-rw"])
def test_attention_is_measured_or_skipped_with_a_reason(files, tmp_path, family):
    other = pl.load(str(save_tiny(tmp_path / "m", family)))
    found = run(other, out=tmp_path / "o", text=files["text"], limit=1, **(ALONE | {"layers": "0-1", "seeds": 1}))
    rows = found.table("propagation")
    later = rows[rows.block > rows.layers.astype(int)]
    skipped = [e for e in found.summary["skipped"] if e["what"] == "attention weights"]
    assert later.attention_js.isna().all() if skipped else later.attention_js.notna().all()
    assert all(e["why"] for e in skipped)
    assert later.distance.gt(0).all()
    assert found.failed == ()


def test_low_precision_and_the_notebook(tmp_path, files):
    model = str(save_tiny(tmp_path / "m", "llama"))
    options = {"text": files["text"], "limit": 2, **(ALONE | {"layers": "0-1", "seeds": 1})}
    rough = run(pl.load(model, dtype="bfloat16"), out=tmp_path / "a", allow_mismatch=True, **options)
    assert rough.failed == ()
    (note, two) = (
        run(pl.load(model), out=tmp_path / f"n{n}", preset="notebook", text_filter="none", **(options | {"seeds": n}))
        for n in (1, 2)
    )
    cells = [
        c for r in (note, two) for c in r.summary["cells"] if (c["measure"], c["arm"]) == ("amplification", "angular")
    ]  # one per perturbed block
    assert [c["ci95"] is None for c in cells] == [True, True, False, False]
    assert "one seed" in cells[0]["why"]
    assert note.table("propagation").sign.isna().all()
