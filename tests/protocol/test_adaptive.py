"""A run of a given precision: texts in rounds that double, one stop per delta, and decisions that rows alone make."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_runs import KEYS, PAIRS, assert_same, run

import polarlens as pl
from polarlens.errors import UsageError
from polarlens.protocol import runner
from polarlens.protocol.adaptive import in_order
from polarlens.protocol.estimate import Estimate
from polarlens.protocol.executors import work
from polarlens.protocol.summarise import rebuild
from polarlens.report import render_text
from tiny import save_tiny

WORDS = (
    "the",
    "a",
    "river",
    "town",
    "old",
    "letter",
    "teacher",
    "sees",
    "saw",
    "long",
    "window",
    "manager",
    "cat",
    "dog",
)
WORDS += ("sleeps", "runs", "and", "but", "near", "in", "with", "near", "in", "of")
SMALL = {"delta": [0.1, 0.3], "seeds": 1, "layers": "1-2", "experiments": ["sweep"], "positions": ["all"]}
SMALL |= {"quiet": True}
# With 60 of these texts the half-width of the ratio is 40.4 % of it at delta 0.1, 38.4 % at 0.3; with 120, 26 and 25 %.
WIDTH = 0.395


def texts(n: int, seed: int = 5) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(4, 14))) for _ in range(n)]


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return pl.load(str(save_tiny(tmp_path_factory.mktemp("models") / "neox", "gpt_neox")))


def written(folder: Path, lines: list[str]) -> str:
    path = folder / "texts.txt"
    path.write_text("\n".join(lines))
    return str(path)


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> str:
    return written(tmp_path_factory.mktemp("data"), texts(150))


@pytest.fixture(scope="module")
def done(lm, file, tmp_path_factory):
    return run(lm, text=file, out=tmp_path_factory.mktemp("run") / "whole", ci_width=WIDTH, **SMALL)


def ratios(summary) -> dict[float, dict]:
    return {
        one["delta"]: one
        for one in summary["contrasts"]
        if (one["kind"], one["measure"], one["experiment"]) == ("ratio", "nll", "sweep")
    }


def texts_of(rows: pd.DataFrame, delta: float) -> set[str]:
    return set(rows[(rows.task == "loss") & (rows.delta == delta) & (rows.arm != "clean")].item)


def test_each_delta_stops_at_the_first_round_that_is_precise_enough(done):
    found = done.summary["adaptive"]
    assert (found["width"], found["cap"], found["done"]) == (WIDTH, 150, True)
    by_delta = {one["delta"]: one for one in found["deltas"]}
    assert found["rounds"] == [60, 120]
    assert (by_delta[0.3]["n_items"], by_delta[0.1]["n_items"]) == (60, 120)
    for delta, ratio in ratios(done.summary).items():
        (low, high), told = ratio["ci95"], by_delta[delta]
        assert ratio["n_items"] == told["n_items"]
        assert (high - low) / 2 / ratio["value"] == pytest.approx(told["half_width"], rel=1e-9)
        assert told["half_width"] <= WIDTH
        assert told["reached"]
    assert done.summary["complete"]
    assert done.manifest["adaptive"] == found


def test_all_conditions_of_a_delta_have_the_same_texts_and_draws(done):
    rows = done.table("sweep")
    assert not rows.duplicated(KEYS).any()
    perturbed = rows[rows.delta > 0]
    for delta, n in ((0.1, 120), (0.3, 60)):
        here = perturbed[perturbed.delta == delta]
        sets = [frozenset(one.item) for _, one in here.groupby(["arm", "sign", "seed"])]
        assert len(sets) == 4
        assert set(map(len, sets)) == {n}
        assert len(set(sets)) == 1
    assert texts_of(rows, 0.3) < texts_of(rows, 0.1)
    assert len(rows[rows.arm == "clean"]) == 120


@pytest.fixture(scope="module")
def every(lm, file, tmp_path_factory):
    """The sweep's rows of all 150 texts."""
    return run(lm, text=file, out=tmp_path_factory.mktemp("run") / "all", **SMALL).table("sweep")


def test_a_round_is_no_choice_of_lengths_or_of_places_in_the_file(done, every):
    """The digests decide: the mean length of 60 of 150 texts is within three standard errors of the mean of all."""
    lengths = dict(done.table("sweep")[["item", "n_tokens"]].itertuples(index=False))
    chosen = np.array([lengths[item] for item in texts_of(done.table("sweep"), 0.3)])
    sizes = every[every.arm == "clean"].n_tokens.to_numpy(float)
    error = sizes.std() / np.sqrt(60) * np.sqrt(1 - 60 / 150)
    assert abs(chosen.mean() - sizes.mean()) < 3 * error
    keys = [("d", f"{k}") for k in range(200)]
    assert in_order(keys, ()) == in_order(keys[::-1], ()) != sorted(keys)
    assert set(in_order(keys, keys[150:])[:50]) == set(keys[150:])


def test_the_rows_are_those_of_a_run_without_rounds(done, every):
    mine = done.table("sweep")
    mine_too = every.item.isin(set(mine.item)) & ~((every.delta == 0.3) & ~every.item.isin(texts_of(mine, 0.3)))
    assert_same(mine, every[mine_too], KEYS)


def test_again_does_nothing_and_a_narrower_width_goes_on(done, every, lm, file, tmp_path):
    folder = shutil.copytree(done.folder, tmp_path / "copy")
    parts = sorted((folder / "rows" / "sweep").iterdir())
    again = run(lm, text=file, out=folder, ci_width=WIDTH, **SMALL)
    assert sorted((folder / "rows" / "sweep").iterdir()) == parts
    assert again.summary["adaptive"] == done.summary["adaptive"]
    narrow = run(lm, text=file, out=folder, ci_width=0.05, **SMALL)
    assert narrow.summary["adaptive"]["rounds"] == [60, 120, 150]
    assert not any(one["reached"] for one in narrow.summary["adaptive"]["deltas"])
    assert sum("less precise than asked" in one for one in narrow.summary["warnings"]) == 2
    assert narrow.summary["complete"]
    rows = narrow.table("sweep")
    assert not rows.duplicated(KEYS).any()
    assert_same(rows, every, KEYS)
    whole = run(lm, text=file, out=folder, **SMALL)
    assert "adaptive" not in whole.summary


@pytest.mark.parametrize("stop_after", [3, 11])
def test_an_interrupted_run_takes_the_same_decisions(done, lm, file, tmp_path, monkeypatch, stop_after):
    """Interrupted within the first round and within the second."""
    attempt, seen = work.attempt, []

    def interrupted(bench, unit, advance):
        if len(seen) == stop_after:
            raise KeyboardInterrupt
        seen.append(unit)
        return attempt(bench, unit, advance)

    monkeypatch.setattr("polarlens.protocol.executors.local.attempt", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(lm, text=file, out=tmp_path / "r", ci_width=WIDTH, **SMALL)
    monkeypatch.undo()
    monkeypatch.setattr("polarlens.report.write_report", lambda *_: None)
    assert not rebuild(tmp_path / "r")["complete"]
    resumed = run(lm, text=file, out=tmp_path / "r", ci_width=WIDTH, **SMALL)
    assert resumed.summary["adaptive"]["rounds"] == done.summary["adaptive"]["rounds"]
    assert_same(resumed.table("sweep"), done.table("sweep"), KEYS)


def test_between_two_rounds_a_run_is_not_complete(done, lm, file, tmp_path, monkeypatch):
    """All rows of the first round are there, and nobody has looked at them."""
    begun, stages = runner._begun, []

    def stopped(*arguments):
        stages.append(arguments)
        if len(stages) == 2:
            raise KeyboardInterrupt
        return begun(*arguments)

    monkeypatch.setattr(runner, "_begun", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(lm, text=file, out=tmp_path / "r", ci_width=WIDTH, **SMALL)
    monkeypatch.undo()
    monkeypatch.setattr("polarlens.report.write_report", lambda *_: None)
    summary = rebuild(tmp_path / "r")
    assert (summary["complete"], summary["missing_units"]) == (False, 1)
    assert "no round is whole yet" in summary["adaptive"]["deltas"][0]["why"]
    assert run(lm, text=file, out=tmp_path / "r", ci_width=WIDTH, **SMALL).summary["complete"]


def test_a_unit_that_fails_ends_the_rounds_and_is_told(lm, file, tmp_path, monkeypatch):
    monkeypatch.setattr("polarlens.protocol.executors.local.attempt", lambda *a: work.Outcome(None, "planned failure"))
    failed = run(lm, text=file, out=tmp_path / "r", ci_width=WIDTH, **SMALL)
    assert len(failed.failed) == 8
    assert not failed.summary["complete"]
    assert failed.summary["adaptive"]["rounds"] == [60]
    monkeypatch.undo()
    assert run(lm, text=file, out=tmp_path / "r", ci_width=WIDTH, **SMALL).summary["complete"]


def test_more_texts_extend_and_other_texts_are_refused(lm, tmp_path):
    few, many = texts(70), texts(150)
    file = written(tmp_path, few)
    out = tmp_path / "r"
    before = run(lm, text=file, out=out, ci_width=0.1, **SMALL)
    assert before.summary["adaptive"]["rounds"] == [60, 70]
    written(tmp_path, many)
    after = run(lm, text=file, out=out, ci_width=0.1, **SMALL)
    assert after.summary["adaptive"]["rounds"] == [60, 120, 150]
    assert after.manifest["data"]["loss"]["items"] == 150
    rows = after.table("sweep")
    assert not rows.duplicated(KEYS).any()
    assert len(texts_of(rows, 0.1)) == 150
    for lines in (few, texts(150, seed=1)):
        written(tmp_path, lines)
        with pytest.raises(UsageError, match="and this command reads"):
            run(lm, text=file, out=out, ci_width=0.1, **SMALL)
    with pytest.raises(UsageError, match="and this command reads 0 of them"):
        run(lm, text=file, out=out, **SMALL)  # without rounds too


def test_more_seeds_and_deltas_extend(done, lm, file, tmp_path):
    folder = shutil.copytree(done.folder, tmp_path / "copy")
    more = run(lm, text=file, out=folder, ci_width=WIDTH, **SMALL | {"seeds": 2, "delta": [0.1, 0.2, 0.3]})
    rows = more.table("sweep")
    assert not rows.duplicated(KEYS).any()
    assert more.summary["complete"]
    adaptive = {one["delta"]: one["n_items"] for one in more.summary["adaptive"]["deltas"]}
    for delta, n in adaptive.items():
        both = rows[rows.delta == delta].groupby("item").seed.nunique() == 2
        assert both.sum() >= n


def test_pairs_and_other_experiments_take_all_items(lm, file, tmp_path):
    (tmp_path / "pairs.jsonl").write_text("\n".join(json.dumps({"good": g, "bad": b}) for g, b in PAIRS))
    asked = SMALL | {"delta": [0.3], "experiments": ["sweep", "repair"], "repair": ["attention"]}
    found = run(lm, text=file, pairs=[str(tmp_path / "pairs.jsonl")], out=tmp_path / "r", ci_width=0.5, **asked)
    assert found.summary["adaptive"]["rounds"] == [60]
    assert found.table("sweep").query("task == 'loss'").item.nunique() == 60
    assert found.table("sweep").query("task == 'pairs'").item.nunique() == len(PAIRS)
    assert found.table("repair").query("task == 'loss'").item.nunique() == 150


def test_a_dry_run_plans_the_first_round(lm, file, tmp_path, capsys):
    plan = pl.run(lm, text=file, out=tmp_path / "r", ci_width=0.1, dry_run=True, **SMALL | {"quiet": False})
    assert isinstance(plan, Estimate)
    assert plan.items == 60
    assert "round 1: 60 of 150 texts at delta 0.1, 0.3" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_fewer_texts_than_a_round(lm, tmp_path):
    found = run(lm, text=written(tmp_path, texts(20)), out=tmp_path / "r", ci_width=5.0, **SMALL)
    assert found.summary["adaptive"]["rounds"] == [20]


def test_the_terminal_tells_the_precision(done):
    shown = render_text(done.summary, done.folder)
    assert "Precision of the loss ratio: 39.5 % of it asked; rounds of 60, 120 texts, 150 at most" in shown
    assert "0.1     120     " in shown
