"""Several models in one command and finished runs side by side, from the command line to the files."""

import json
import shutil
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import polarlens as pl
from polarlens.cli.main import main
from polarlens.errors import UsageError
from polarlens.protocol.many import folders
from polarlens.protocol.result import Run
from tiny import save_tiny

TEXTS = [
    "The river runs through the old town.",
    "Some teachers have never seen these mountains, and they say so.",
    "The authors near the window were reading a long letter from the manager.",
    "She said that it would rain, but the children went out.",
    "Every sentence here was written by hand.",
]
PAIRS = [
    ("The cats sleep.", "The cats sleeps."),
    ("A dog runs.", "A dog run."),
    ("The letter was long.", "The letter were long."),
    ("The towns are old.", "The towns is old."),
]
OPTIONS = [
    *("--text", "t.txt", "--pairs", "p.jsonl", "--delta", "0.1,0.3", "--seeds", "1"),
    *("--layers", "middle", "--positions", "all", "--experiments", "sweep", "--quiet"),
]
CONTRAST_KEYS = {
    *("experiment", "task", "measure", "delta", "layers", "positions", "policy_id", "kind", "value", "ci95"),
    *("ci_simultaneous", "p_holm", "defined", "model_a", "model_b", "paired"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LayerNorm model, an RMSNorm model of other depth, a broken one, data, and one run of both in `done`."""
    root = tmp_path_factory.mktemp("many")
    save_tiny(root / "ln", "stablelm")
    save_tiny(root / "rms", "llama", num_hidden_layers=6)
    (root / "empty").mkdir()
    (root / "t.txt").write_text("\n".join(TEXTS))
    (root / "p.jsonl").write_text("\n".join(json.dumps({"good": g, "bad": b, "phenomenon": "p"}) for g, b in PAIRS))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert main(["run", "ln", "rms", *OPTIONS, "--out", "done"]) == 0
    return root


@pytest.fixture(autouse=True)
def _here(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


def document(path: str = "done") -> dict[str, Any]:
    return json.loads(Path(path, "compare.json").read_text("utf-8"))


def test_each_model_has_its_folder_and_the_comparison_lies_beside(place: Path) -> None:
    assert {path.name for path in (place / "done").iterdir()} == {
        *("ln", "rms", "compare.json", "compare.html", "figures"),
    }
    for name, kind, layers in (("ln", "layernorm", "1"), ("rms", "rmsnorm", "2-3")):
        run = Run.open(place / "done" / name)
        assert run.summary["complete"]
        assert (run.manifest["model"]["norm_kind"], run.manifest["settings"]["layers"]) == (kind, layers)
    found = document()
    assert found.keys() == {"schema", "runs", "contrasts", "claims", "warnings"}
    assert [(run["model"], run["norm_kind"]) for run in found["runs"]] == [("ln", "layernorm"), ("rms", "rmsnorm")]
    assert [run["n_params"] for run in found["runs"]] == [
        Run.open(place / "done" / name).manifest["model"]["n_params"] for name in ("ln", "rms")
    ]
    assert [claim["id"] for claim in found["claims"]] == ["C8", "C9"]
    for one in found["contrasts"]:
        assert one.keys() >= CONTRAST_KEYS
        assert (one["model_a"], one["model_b"], one["paired"]) == ("ln", "rms", True)
        assert (one["layers"], one["layers_a"], one["layers_b"]) == (None, "1", "2-3")
    assert {one["task"] for one in found["contrasts"]} == {"loss", "pairs"}
    text = (place / "done/compare.html").read_text("utf-8")
    assert "LayerNorm" in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_contrasts_come_from_the_rows_of_both_runs(place: Path) -> None:
    """Two of them by hand: accuracy and the loss per item, paired by sentence."""

    def items(name: str, task: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        rows = Run.open(place / "done" / name).table("sweep")
        rows = rows[rows.task == task].set_index("item")
        return rows[rows.arm == "clean"], rows[(rows.arm == "angular") & (rows.delta == 0.3)]

    drops, psi, level = [], [], []
    for name in ("ln", "rms"):
        clean, moved = items(name, "pairs")
        moved = moved[moved.policy_id == "matched-independent"]
        right = 100.0 * (moved.logp_good > moved.logp_bad).groupby(level=0).mean()
        drops.append(100.0 * (clean.logp_good > clean.logp_bad) - right)
        clean, moved = items(name, "loss")
        s = moved.nll.groupby(level=0).mean() - clean.nll
        t = clean.n_tokens.astype(float)
        level.append(s.sum() / t.sum())
        psi.append((s - level[-1] * t) / t.mean())
    at = {
        (one["task"], one["kind"]): one
        for one in document()["contrasts"]
        if one["arm"] == "angular" and one["delta"] == 0.3 and one["policy_id"] in ("matched", "matched-independent")
    }
    assert at["pairs", "difference"]["value"] == pytest.approx((drops[0] - drops[1]).mean())
    loss, n = at["loss", "difference"], len(TEXTS)
    assert loss["value"] == pytest.approx(level[0] - level[1])
    spread = float(np.sqrt(n / (n - 1) * ((psi[0] - psi[1]) ** 2).sum()) / n)
    half = stats.t.ppf(0.975, n - 1) * spread
    assert loss["ci95"] == pytest.approx([loss["value"] - half, loss["value"] + half], rel=1e-6)


def test_the_same_command_does_nothing_twice(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in (place / "done").rglob("*.parquet")}
    (place / "m.yaml").write_text("models: [ln, rms]\nout: done\n")
    assert main(["run", "--config", "m.yaml", *OPTIONS, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document()
    assert {path: path.stat().st_mtime_ns for path in (place / "done").rglob("*.parquet")} == before


def test_a_model_that_cannot_be_loaded_leaves_the_others(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "ln", "missing", "empty", "rms", *OPTIONS[:-1], "--out", "partly"]) == 4
    captured = capsys.readouterr()
    assert "FILES in partly: compare.html" in captured.out
    failed = [line for line in captured.err.splitlines() if line.startswith("failed: ")]
    assert [line.split(": ")[1] for line in failed] == ["missing", "empty"]
    assert "Going on with the other models." in captured.err
    assert [run["model"] for run in document("partly")["runs"]] == ["ln", "rms"]
    assert not (place / "partly/missing").exists()


def test_one_model_left_is_shown_alone(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(place / "done/ln", place / "alone/ln")
    assert main(["run", "ln", "missing", *OPTIONS, "--out", "alone"]) == 4
    assert "FILES in alone/ln: report.html" in capsys.readouterr().out
    assert not (place / "alone/compare.json").exists()


def test_no_model_at_all_is_the_first_ones_error(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "missing", "empty", *OPTIONS, "--out", "none"]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith("polarlens: missing: ")
    assert not (place / "none").exists()


def test_bad_data_is_found_before_any_model(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "ln", "rms", "--text", "no.txt", "--out", "none"]) == 2
    assert "no.txt" in capsys.readouterr().err
    assert not (place / "none").exists()


def test_the_folder_of_one_run_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "ln", "rms", *OPTIONS, "--out", "done/ln"]) == 2
    assert "the folder of one run, not of several" in capsys.readouterr().err


def test_a_dry_run_plans_every_model(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "ln", "rms", *OPTIONS[:-1], "--out", "plan", "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("plan: ") == 2
    assert not (place / "plan").exists()


def test_a_model_is_freed_before_the_next_is_loaded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import polarlens.models as models

    loaded, alive = [], []
    load = models.load

    def watched(name: str, **options: Any) -> Any:
        alive.append([ref() is not None for ref in loaded])
        lm = load(name, **options)
        loaded.append(weakref.ref(lm.hf))
        return lm

    monkeypatch.setattr(models, "load", watched)
    assert main(["run", "ln", "rms", "ln/../ln", *OPTIONS, "--out", "twice"]) == 2
    # a layer that one of the models does not have: its error must not keep the model either
    options = [*OPTIONS, "--layers", "4", "--out", "freed"]
    assert main(["run", "ln", "rms", *options]) == 4
    assert alive == [[], [False]]


def test_folders_of_models_with_one_name_differ(tmp_path: Path) -> None:
    for name in ("a/x", "b/X", "c/figures"):
        (tmp_path / name).mkdir(parents=True)
    paths = [str(tmp_path / name) for name in ("a/x", "b/X", "c/figures")]
    found = folders(paths)
    assert len({name.casefold() for name in found}) == 3
    assert [name.split("-")[0] for name in found] == ["x", "X", "figures"]
    assert "figures" not in found
    assert folders(paths[::-1]) == found[::-1]
    assert folders(["owner/a", "a"]) == ["owner--a", "a"]
    with pytest.raises(UsageError, match="named twice"):
        folders([paths[0], str(tmp_path / "a/../a/x")])


def test_compare_reads_finished_runs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    want = document()
    assert main(["compare", "done/rms", "done/ln", "--out", "again", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == document("again")
    assert [run["model"] for run in found["runs"]] == ["rms", "ln"]
    assert sorted(one["value"] or 0 for one in found["contrasts"] if one["arm"]) == pytest.approx(
        sorted(-(one["value"] or 0) for one in want["contrasts"] if one["arm"])
    )
    assert main(["compare", "done/ln", "done/rms", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert document() == want


def test_runs_in_different_places_are_compared_in_the_current_folder(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "elsewhere").mkdir()
    shutil.copytree(place / "done/rms", place / "other/rms")
    monkeypatch.chdir(place / "elsewhere")
    assert main(["compare", "../done/ln", "../other/rms"]) == 0
    assert "FILES in ." in capsys.readouterr().out
    assert (place / "elsewhere/compare.json").exists()


def test_two_runs_of_one_model_are_told_apart_by_their_folders(place: Path) -> None:
    shutil.copytree(place / "done/ln", place / "copy/ln")
    found = pl.compare([place / "done/ln", Run.open(place / "copy/ln")], out=place / "copies")
    assert [run["model"] for run in found.document["runs"]] == [
        f"ln ({place / name / 'ln'})" for name in ("done", "copy")
    ]
    assert len(found.table()) == len(found.document["contrasts"]) > 0
    assert list(found.claims["id"]) == ["C8", "C9"]
    assert "WHAT DIFFERS" in repr(found)
    with pytest.raises(UsageError, match="there is no figure"):
        found.plot("dissociation")


def test_the_result_draws_its_figure(place: Path) -> None:
    found = pl.compare([place / "done/ln", place / "done/rms"], out=place / "drawn")
    assert found.plot().to_dict()["hconcat"]


BAD = [
    (["done/ln"], "a comparison needs two runs or more"),
    (["done/ln", "done/../done/ln"], "this run is given twice"),
    (["done/ln", "t.txt"], "t.txt"),
    (["done/ln", "ln"], "ln: this folder holds no run"),
    (["done/ln", "done"], "done: the folder holds"),
    (["done/ln", "broken/manifest"], "this is not the manifest of a run"),
    (["done/ln", "broken/summary"], "summary.json: the run's summary cannot be read. Rebuild it"),
    (["done/ln", "broken/keys"], "summary.json: the run's summary cannot be read. Rebuild it"),
    (["done/ln", "broken/rows"], "this file of rows is damaged"),
    (["done/ln", "broken/norows"], "these runs cannot be compared"),
    (["done/ln", "done/rms", "--out", "foreign"], "that is not from a comparison of runs"),
    (["done/ln", "done/rms", "--out", "t.txt"], "this is a file, not a folder"),
]


@pytest.fixture(scope="module")
def broken(place: Path) -> None:
    for name in ("manifest", "summary", "keys", "rows", "norows"):
        shutil.copytree(place / "done/rms", place / "broken" / name)
    (place / "broken/manifest/manifest.json").write_text("{}")
    (place / "broken/summary/summary.json").write_text('{"model": "x", ')
    (place / "broken/keys/summary.json").write_text('["model"]')
    part = next((place / "broken/rows/rows").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:200])
    shutil.rmtree(place / "broken/norows/rows")
    (place / "foreign").mkdir()
    (place / "foreign/compare.json").write_text('{"mine": 1}')


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(("arguments", "said"), BAD, ids=[" ".join(case[0]) for case in BAD])
def test_bad_runs_are_one_message(
    arguments: list[str], said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {path for path in place.rglob("*") if path.is_file()}
    assert main(["compare", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err
    assert {path for path in place.rglob("*") if path.is_file()} == files
    assert (place / "foreign/compare.json").read_text() == '{"mine": 1}'


def in_python(models: list[Any], out: str) -> Any:
    return pl.run(
        models, text="t.txt", pairs="p.jsonl", delta="0.1,0.3", seeds=1, layers="middle", positions="all",
        experiments="sweep", quiet=True, out=out,
    )  # fmt: skip


def test_a_list_of_models_in_python_does_what_the_command_does(place: Path) -> None:
    done = in_python([place / "ln", pl.load("rms")], "by-hand")
    assert [run.folder.name for run in done.runs] == ["ln", "rms"]
    assert done.failed == ()
    mine, commanded = document("by-hand")["contrasts"], document()["contrasts"]
    assert len(mine) == len(commanded) > 0
    for one, other in zip(mine, commanded, strict=True):
        assert one["value"] == other["value"]
    assert done.compared.document["claims"] == document()["claims"]
    assert (place / "by-hand" / "compare.html").exists()


def test_a_list_of_one_is_one_run(place: Path) -> None:
    assert isinstance(in_python(["ln"], "single"), Run)
    assert (place / "single" / "manifest.json").exists()


def test_what_is_no_model_is_refused(place: Path) -> None:
    with pytest.raises(UsageError, match="a int is no model"):
        pl.run(["ln", 3])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="no model is named"):
        pl.run([])
    lm = pl.load("ln")
    with pytest.raises(UsageError, match="named twice"):
        in_python([lm, lm], "twice")
    assert not (place / "twice").exists()
