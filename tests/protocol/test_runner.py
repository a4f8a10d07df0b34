"""Whole runs on tiny models: the folder, what is never done twice, what is refused, and what survives failures."""

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import polarlens as pl
from polarlens.errors import NumericalError, UsageError
from polarlens.protocol import runner
from polarlens.protocol.estimate import Estimate
from polarlens.protocol.executors import work
from tiny import edit_config, save_tiny

TEXTS = [
    "The river runs through the old town.",
    "Some teachers have never seen these mountains, and they say so.",
    "A letter came.",
    "The authors near the window were reading a long letter from the manager.",
    "x",
    "She said that it would rain, but the children went out.",
]
PAIRS = [
    ("The cats sleep.", "The cats sleeps."),
    ("A dog runs.", "A dog run."),
    ("The letter was long.", "The letter were long."),
]
SMALL = {"experiments": ["sweep"], "delta": [0.1, 0.3], "seeds": 2, "layers": "1-2", "quiet": True}


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("data")
    (folder / "texts.txt").write_text("\n".join(TEXTS))
    (folder / "pairs.jsonl").write_text(
        "\n".join(json.dumps({"good": g, "bad": b, "phenomenon": "p"}) for g, b in PAIRS)
    )
    return {"text": str(folder / "texts.txt"), "pairs": [str(folder / "pairs.jsonl")]}


@pytest.fixture(scope="session")
def neox(tmp_path_factory) -> str:
    return str(save_tiny(tmp_path_factory.mktemp("models") / "neox", "gpt_neox"))


@pytest.fixture(scope="session")
def lm(neox):
    return pl.load(neox)


@pytest.fixture(scope="session")
def done(lm, files, tmp_path_factory):
    return pl.run(lm, out=tmp_path_factory.mktemp("run") / "whole", **files, **SMALL)


KEYS = ["task", "dataset", "item", "arm", "delta", "seed", "sign", "policy_id", "positions"]
NUMBERS = ["nll", "kl", "logp_good", "logp_bad", "realised_delta_mean", "realised_delta_max_error", "norm_change_max"]


def ordered(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.sort_values(KEYS).reset_index(drop=True)


def assert_same_rows(a: pd.DataFrame, b: pd.DataFrame) -> None:
    a, b = ordered(a), ordered(b)
    pd.testing.assert_frame_equal(a.drop(columns=NUMBERS), b.drop(columns=NUMBERS))
    pd.testing.assert_frame_equal(a[NUMBERS], b[NUMBERS], rtol=1e-5, atol=1e-5)


def test_the_folder_is_complete_and_every_row_is_there_once(done):
    assert {"manifest.json", "summary.json", "report.html", "rows", "figures"} <= {
        p.name for p in done.folder.iterdir()
    }
    rows = done.table("sweep")
    assert not rows.duplicated(KEYS).any()
    per_policy = 2 * 2 * 2 * 2 * 2  # arms, deltas, seeds, antithetic members, positions
    counts = rows.groupby("task").size()
    assert counts["loss"] == 5 * (1 + 2 + per_policy)  # the one-token text is left out
    assert counts["pairs"] == 3 * (1 + 2 + 2 * per_policy)
    assert rows.realised_delta_max_error.max() < 1e-4
    assert done.summary["complete"]
    assert done.summary["missing_units"] == 0
    assert done.failed == ()


def test_missing_is_null(done):
    rows = done.table("sweep")
    assert rows[rows.arm == "clean"].seed.isna().all()
    assert rows[rows.task == "pairs"].nll.isna().all()
    assert rows[rows.task == "loss"].logp_good.isna().all()
    text = (done.folder / "summary.json").read_text() + (done.folder / "manifest.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text


def test_control_rows_equal_the_clean_rows_exactly(done):
    rows = done.table("sweep")
    clean = rows[rows.arm == "clean"].set_index(["task", "item"])
    control = rows[(rows.arm != "clean") & (rows.delta == 0)]
    assert len(control) == 2 * len(clean)
    for row in control.itertuples():
        reference = clean.loc[(row.task, row.item)]
        if row.task == "loss":
            assert row.nll == reference.nll
            assert row.kl == 0.0
        else:
            assert (row.logp_good, row.logp_bad) == (reference.logp_good, reference.logp_bad)


def test_the_manifest_says_what_was_measured(done, files, lm):
    manifest = done.manifest
    assert manifest["model"]["weights_sha256"] == lm.weights_digest
    assert manifest["tokenizer"]["bos"]["token"] == "<s>"
    assert manifest["data"]["loss"]["skipped"] == {"fewer than two tokens": 1}
    assert manifest["settings"]["layers"] == "1-2"
    assert [block["block"] for block in manifest["state_profile"]["blocks"]] == [0, 1, 2]
    assert manifest["unigram_nll"] > 0
    assert manifest["versions"]["polarlens"] == pl.__version__
    assert manifest["peak_memory_bytes"] > 1e6


def test_damages_in_the_summary_come_from_the_rows(done):
    """One cell by hand: pooled nll damage of the angular arm at one delta."""
    rows = done.table("sweep")
    clean = rows[(rows.arm == "clean") & (rows.task == "loss")].set_index("item")
    chosen = rows[(rows.task == "loss") & (rows.arm == "angular") & (rows.delta == 0.3) & (rows.positions == "all")]
    per_item = chosen.groupby("item").nll.mean() - clean.nll
    want = per_item.sum() / clean.n_tokens.sum()
    (cell,) = [
        c
        for c in done.summary["cells"]
        if (c["measure"], c["arm"], c["delta"], c["positions"]) == ("nll", "angular", 0.3, "all")
    ]
    assert cell["mean"] == pytest.approx(want, rel=1e-9)
    assert cell["n_items"] == 5
    assert cell["n_seeds"] == 2


def interrupt_after_one_unit(monkeypatch) -> None:
    real, calls = runner.write_part, []

    def interrupted(*args, **kwargs):
        if calls:
            raise KeyboardInterrupt
        calls.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(runner, "write_part", interrupted)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in (folder / "rows").rglob("*.parquet")}


def test_running_again_does_nothing_twice(lm, files, tmp_path):
    first = pl.run(lm, out=tmp_path, **files, **SMALL)
    before = snapshot(tmp_path)
    again = pl.run(lm, out=tmp_path, **files, **SMALL)
    assert snapshot(tmp_path) == before
    assert again.summary == first.summary


def test_more_seeds_deltas_and_items_extend_a_folder(lm, files, done, tmp_path):
    pl.run(lm, out=tmp_path, **files, **(SMALL | {"seeds": 1, "delta": [0.1]}), limit=2)
    before = snapshot(tmp_path)
    grown = pl.run(lm, out=tmp_path, **files, **SMALL)
    after = snapshot(tmp_path)
    assert before.items() <= after.items()
    assert_same_rows(grown.table("sweep"), done.table("sweep"))
    for a, b in zip(grown.summary["cells"], done.summary["cells"], strict=True):
        assert a["mean"] == pytest.approx(b["mean"], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("batch_tokens", [1, 97])
def test_rows_do_not_depend_on_the_batch_budget(lm, files, done, tmp_path, batch_tokens):
    other = pl.run(lm, out=tmp_path, batch_tokens=batch_tokens, **files, **SMALL)
    assert_same_rows(other.table("sweep"), done.table("sweep"))


def test_an_interrupted_run_is_resumed_to_the_same_rows(lm, files, done, tmp_path, monkeypatch):
    interrupt_after_one_unit(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        pl.run(lm, out=tmp_path, **files, **SMALL)
    monkeypatch.undo()
    assert len(snapshot(tmp_path)) == 1
    partial = runner.rebuild(tmp_path)
    assert not partial["complete"]
    assert partial["missing_units"] == 1
    resumed = pl.run(lm, out=tmp_path, **files, **SMALL)
    assert resumed.summary["complete"]
    assert_same_rows(resumed.table("sweep"), done.table("sweep"))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"layers": "1"}, "layers"),
        ({"bos": "none"}, "bos"),
        ({"max_tokens": 8}, "max_tokens"),
        ({"delta_mode": "absolute"}, "delta_mode"),
        ({"preset": "paper", "delta_mode": "relative"}, "preset"),
    ],
)
def test_settings_that_change_numbers_are_refused(lm, files, done, change, named):
    before = snapshot(done.folder)
    with pytest.raises(UsageError, match=rf"{named} was .* and is now"):
        pl.run(lm, out=done.folder, **files, **(SMALL | change))
    assert snapshot(done.folder) == before


def test_another_model_is_refused(files, done, tmp_path):
    other = pl.load(str(save_tiny(tmp_path / "m", "gpt_neox", seed=1)))
    with pytest.raises(UsageError, match="model_weights was"):
        pl.run(other, out=done.folder, **files, **SMALL)


def test_overwrite_discards_rows_and_leaves_foreign_files(lm, files, tmp_path):
    pl.run(lm, out=tmp_path, **files, **SMALL)
    (tmp_path / "notes.md").write_text("mine")
    run = pl.run(lm, out=tmp_path, overwrite=True, **files, **(SMALL | {"layers": "0", "seeds": 1}))
    assert set(run.table("sweep").layers) == {"0"}
    assert (tmp_path / "notes.md").read_text() == "mine"


def test_a_folder_in_use_is_refused_with_pid_and_host(lm, files, tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from polarlens.protocol.folder import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match=rf"pid {holder.pid} on "):
            pl.run(lm, out=tmp_path, **files, **SMALL)
    finally:
        holder.kill()
        holder.wait()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:  # the lock dies with its holder
        try:
            assert pl.run(lm, out=tmp_path, **files, **SMALL).summary["complete"]
            return
        except UsageError:
            time.sleep(0.1)
    pytest.fail("the folder stayed locked")


def test_a_failing_unit_is_listed_and_the_rest_done(lm, files, tmp_path, monkeypatch):
    real = runner.EXPERIMENTS["sweep"]

    def failing(bench, unit, advance):
        if unit.task == "pairs":
            raise NumericalError("planted", where="block 1")
        return real.rows(bench, unit, advance)

    monkeypatch.setattr(work, "EXPERIMENTS", {"sweep": replace(real, rows=failing)})
    run = pl.run(lm, out=tmp_path, **files, **SMALL)
    assert len(run.failed) == 1
    assert "planted" in run.failed[0]
    assert set(run.table("sweep").task) == {"loss"}
    assert run.summary["missing_units"] == 1
    assert not run.summary["complete"]
    assert any("planted" in warning for warning in run.summary["warnings"])


def test_a_damaged_part_is_set_aside_and_redone(lm, files, done, tmp_path):
    pl.run(lm, out=tmp_path, **files, **SMALL)
    part = next((tmp_path / "rows").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:100])
    run = pl.run(lm, out=tmp_path, **files, **SMALL)
    assert_same_rows(run.table("sweep"), done.table("sweep"))
    assert part.with_suffix(".damaged").exists()


def test_a_distance_that_was_not_realised_fails_the_unit_unless_allowed(neox, files, tmp_path):
    rough = pl.load(neox, dtype="bfloat16")
    small = SMALL | {"delta": [0.001]}
    run = pl.run(rough, out=tmp_path / "a", dtype="bfloat16", **files, **small)
    assert len(run.failed) == 2
    assert all("moved tokens by" in message for message in run.failed)
    allowed = pl.run(rough, out=tmp_path / "b", dtype="bfloat16", allow_mismatch=True, **files, **small)
    assert allowed.failed == ()
    assert allowed.table("sweep").realised_delta_max_error.max() > 0.5


def test_a_dry_run_plans_and_writes_nothing(lm, files, tmp_path):
    plan = pl.run(lm, out=tmp_path / "x", dry_run=True, **files, **SMALL)
    assert isinstance(plan, Estimate)
    assert plan.items == 8
    assert plan.conditions == 32 + 64
    assert not (tmp_path / "x").exists()


def test_one_task_alone_names_the_other_as_skipped(lm, files, tmp_path):
    run = pl.run(lm, out=tmp_path, pairs=files["pairs"], **SMALL)
    assert set(run.table("sweep").task) == {"pairs"}
    assert {"experiment": "sweep", "what": "task loss", "why": "--text was not given"} in run.summary["skipped"]
    assert run.verdict["kind"] in ("inconclusive", "uninformative")


def test_layers_each_runs_one_block_at_a_time(lm, files, tmp_path):
    run = pl.run(lm, out=tmp_path, **files, **(SMALL | {"layers": "each", "seeds": 1, "delta": [0.2]}))
    rows = run.table("sweep")
    assert set(rows[rows.arm != "clean"].layers) == {"0", "1", "2"}
    assert not rows[rows.arm == "clean"].duplicated(["task", "item"]).any()
    assert set(run.verdict["by_layer"]) == {"0", "1", "2"}


@pytest.mark.parametrize("preset", ["paper", "notebook"])
def test_published_presets_run_end_to_end(lm, tmp_path, files, preset):
    options = SMALL | {"preset": preset, "delta": [0.5, 2.0], "layers": "1", "text_filter": "none"}
    run = pl.run(lm, out=tmp_path, **files, **options)
    rows = run.table("sweep")
    assert set(rows.positions.dropna()) == {"all"}
    assert rows[rows.arm != "clean"].sign.isna().all()
    loss = rows[(rows.task == "loss") & (rows.delta == 0.5)]
    assert loss.realised_delta_mean.to_numpy() == pytest.approx(0.5, rel=1e-3)
    if preset == "notebook":  # no BOS, so the first token is not scored
        assert run.manifest["settings"]["bos"] is None


def test_site_mode_measures_its_medians_once_and_refuses_other_items(lm, files, tmp_path):
    site = SMALL | {"delta_mode": "site", "seeds": 1, "delta": [0.2]}
    run = pl.run(lm, out=tmp_path, **files, **site)
    medians = run.manifest["site_medians"]
    assert set(medians) == {"loss", "pairs"}
    rows = run.table("sweep")
    loss = rows[(rows.task == "loss") & (rows.delta == 0.2) & (rows.infeasible == 0)]
    assert loss.realised_delta_mean.to_numpy() == pytest.approx(0.2 * medians["loss"]["1"], rel=1e-5)
    with pytest.raises(UsageError, match="site_items"):
        pl.run(lm, out=tmp_path, limit=3, **files, **site)


def test_another_configuration_under_the_same_weights_is_refused(files, tmp_path):
    folder = save_tiny(tmp_path / "m", "llama")
    pl.run(pl.load(str(folder)), out=tmp_path / "out", **files, **SMALL)
    edit_config(folder, rms_norm_eps=0.5)
    with pytest.raises(UsageError, match="model_config was"):
        pl.run(pl.load(str(folder)), out=tmp_path / "out", **files, **SMALL)


def test_completeness_follows_the_rows_that_are_there(lm, files, tmp_path, monkeypatch):
    """An interrupted run that is then extended ends complete; deleted rows are missed."""
    interrupt_after_one_unit(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        pl.run(lm, out=tmp_path, **files, **(SMALL | {"seeds": 1}))
    monkeypatch.undo()
    assert pl.run(lm, out=tmp_path, **files, **SMALL).summary["complete"]
    assert pl.run(lm, out=tmp_path, **files, **SMALL).summary["complete"]
    part = next(p for p in (tmp_path / "rows").rglob("*.parquet"))
    part.rename(part.with_name("renamed.parquet"))
    assert runner.rebuild(tmp_path)["complete"]
    part.with_name("renamed.parquet").unlink()
    summary = runner.rebuild(tmp_path)
    assert (summary["complete"], summary["missing_units"] > 0) == (False, True)


def test_an_interrupted_extension_says_so_in_the_summary(lm, files, tmp_path, monkeypatch):
    pl.run(lm, out=tmp_path, **files, **(SMALL | {"seeds": 1}))

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "write_part", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pl.run(lm, out=tmp_path, **files, **SMALL)
    assert not json.loads((tmp_path / "summary.json").read_text())["complete"]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["report.html", "figures/thesis.txt", "manifest.json"])
def test_files_that_are_not_ours_are_never_replaced(lm, files, tmp_path, name, overwrite):
    mine = tmp_path / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("{}")
    with pytest.raises(UsageError, match="manifest of a run"):
        pl.run(lm, out=tmp_path, overwrite=overwrite, **files, **SMALL)
    assert mine.read_text() == "{}"


def test_a_task_can_be_added_and_the_manifest_keeps_both(lm, files, done, tmp_path):
    pl.run(lm, out=tmp_path, text=files["text"], **SMALL)
    run = pl.run(lm, out=tmp_path, pairs=files["pairs"], **SMALL)
    assert set(run.manifest["data"]) == {"loss", "pairs"}
    assert run.manifest["unigram_nll"] == done.manifest["unigram_nll"]
    assert run.summary["skipped"] == done.summary["skipped"]
    assert_same_rows(run.table("sweep"), done.table("sweep"))


def test_other_items_are_refused_and_fewer_change_nothing(lm, files, done, tmp_path):
    other = tmp_path / "texts.txt"
    other.write_text("Quite another passage, which was not there before.\n" + "\n".join(TEXTS[1:]))
    before = snapshot(done.folder)
    with pytest.raises(UsageError, match="holds 5 items of the task loss, and this command reads 4 of them"):
        pl.run(lm, out=done.folder, text=str(other), **SMALL)
    with pytest.raises(UsageError, match="this command reads 1 of them"):
        pl.run(lm, out=done.folder, limit=1, **files, **(SMALL | {"seeds": 3}))
    fewer = pl.run(lm, out=done.folder, limit=1, **files, **SMALL)
    assert snapshot(done.folder) == before
    assert fewer.manifest["data"]["loss"]["items"] == 5
    assert fewer.summary == done.summary


def test_a_narrower_command_leaves_the_manifest_about_all_rows(lm, files, tmp_path):
    whole = pl.run(lm, out=tmp_path, **files, **SMALL)
    before = snapshot(tmp_path)
    for narrower in ({"seeds": 1}, {"delta": [0.1]}, {"limit": 2, "seeds": 1}, {"limit": 2, "delta": [0.3]}):
        run = pl.run(lm, out=tmp_path, **files, **(SMALL | narrower))
        for key in ("seeds", "deltas", "wanted", "data", "unigram_nll"):
            assert run.manifest[key] == whole.manifest[key]
        assert run.summary == whole.summary
    assert snapshot(tmp_path) == before


def test_the_order_of_the_parts_changes_no_number(lm, tmp_path, files):
    pl.run(lm, out=tmp_path / "a", **files, **SMALL, limit=2)
    grown = pl.run(lm, out=tmp_path / "a", **files, **SMALL)
    whole = pl.run(lm, out=tmp_path / "b", **files, **SMALL)
    for a, b in zip(grown.summary["cells"], whole.summary["cells"], strict=True):
        if a.get("ci95_bca"):
            assert a["ci95_bca"] == pytest.approx(b["ci95_bca"], rel=1e-3, abs=1e-6)


def test_when_no_token_can_be_moved_nothing_is_claimed(lm, files, tmp_path):
    run = pl.run(lm, out=tmp_path, **files, **(SMALL | {"preset": "paper", "delta": [1e6], "seeds": 1, "layers": "1"}))
    cells = [c for c in run.summary["cells"] if c["delta"] == 1e6]
    assert cells
    assert all(c["mean"] is None and "no token could be moved" in c["why"] for c in cells)
    assert all(claim["status"] in ("inconclusive", "not_run") for claim in run.summary["claims"])
    assert any("100.0% of the eligible tokens" in warning for warning in run.summary["warnings"])


def test_saturation_is_counted_and_the_distance_reported(lm, files, tmp_path):
    options = SMALL | {"preset": "notebook", "text_filter": "none", "delta": [500], "seeds": 1, "layers": "1"}
    run = pl.run(lm, out=tmp_path, **files, **options)
    rows = run.table("sweep")
    angular = rows[(rows.arm == "angular") & (rows.delta == 500)]
    assert (angular.saturated > 0).all()
    (cell,) = [c for c in run.summary["cells"] if (c["arm"], c["measure"], c["delta"]) == ("angular", "nll", 500)]
    assert 0 < cell["realised_delta_mean"] < 100
    assert any("fall short of the distance asked" in warning for warning in run.summary["warnings"])


def test_impossible_tokens_leave_the_kl_finite(neox, files, tmp_path):
    """A head that rules out vocabulary rows gives -inf logits; 0·log 0 is 0."""
    lm = pl.load(neox)

    def rule_out(_module, _args, output):
        output[..., 310:] = float("-inf")
        return output

    lm.head.register_forward_hook(rule_out)
    rows = pl.run(lm, out=tmp_path, text=files["text"], **SMALL).table("sweep")
    moved = rows[rows.delta > 0]
    assert moved.kl.notna().all()
    assert (moved.kl > 0).all()


def test_the_manifest_has_the_dtype_that_was_measured(neox, files, tmp_path):
    run = pl.run(pl.load(neox, dtype="bfloat16"), out=tmp_path, allow_mismatch=True, **files, **SMALL)
    assert run.manifest["model"]["dtype"] == "bfloat16"


def test_progress_adds_up_to_the_plan(lm, files, tmp_path, monkeypatch):
    seen = []

    @contextmanager
    def recorded(total, what, *, quiet):
        yield lambda amount, note="": seen.append(amount)
        assert sum(seen) == pytest.approx(total)
        assert total > 0

    monkeypatch.setattr(runner, "tracked", recorded)
    every = ["sweep", "repair", "propagation", "audit", "curvature"]
    pl.run(lm, out=tmp_path, **files, **(SMALL | {"experiments": every, "seeds": 1, "delta": [0.1]}), limit=2)
    assert len(seen) > 32
