"""Runs on a Ray of two workers: the rows of a local run, and what happens when a worker or a unit fails."""

import importlib.util
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pandas as pd
import pytest
import torch
from made_runs import write_data

import polarlens as pl
from polarlens.english import sentences, write_conllu
from polarlens.errors import UsageError
from polarlens.models.source import Source
from polarlens.protocol.config import RunConfig, resolved
from polarlens.protocol.executors import pool, recipe
from polarlens.protocol.executors.work import Outcome
from polarlens.protocol.plan import NOTHING, Unit
from polarlens.protocol.prepared import prepare, settings_of
from polarlens.protocol.tasks import read_data
from tiny import save_tiny

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra polarlens[ray] is not there")

SMALL = {"delta": [0.3], "seeds": 2, "layers": "each", "quiet": True, "repair": "norm"}


@pytest.fixture(scope="module")
def two_workers():
    """One Ray for the module, with two cores; its address."""
    torch.set_num_threads(1)
    import ray

    handler, hook = signal.getsignal(signal.SIGTERM), sys.excepthook
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, namespace="tests")
    signal.signal(signal.SIGTERM, handler)
    sys.excepthook = hook
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(save_tiny(tmp_path_factory.mktemp("model") / "neox", "gpt_neox"))


@pytest.fixture(autouse=True)
def _no_page(monkeypatch):
    monkeypatch.setattr("polarlens.report.write_report", lambda *_: None)


def units(n: int, task: str = "loss") -> list[Unit]:
    return [Unit("sweep", task, (0,), ((task, str(k)),), NOTHING) for k in range(n)]


def told(unit: Unit, tokens: float, note: str = "") -> None:
    """Nobody listens."""


def opened(make) -> pool.Pool:
    return pool.Pool(make, device="cpu", threads=1, weights=0, quiet=True)


@needs_ray
def test_rows_equal_a_local_run_bit_for_bit(two_workers, model, tmp_path):
    write_conllu(tmp_path / "trees.conllu", sentences(1, 50))
    data = write_data(tmp_path) | {"treebank": str(tmp_path / "trees.conllu")}
    local = pl.run(model, out=tmp_path / "local", **data, **SMALL)
    ray = pl.run(model, out=tmp_path / "ray", executor="ray", **data, **SMALL)
    names = sorted(p.relative_to(local.folder) for p in (local.folder / "rows").rglob("*.parquet"))
    assert names == sorted(p.relative_to(ray.folder) for p in (ray.folder / "rows").rglob("*.parquet"))
    assert len(names) > 10
    for experiment in ("sweep", "repair", "propagation", "probing"):
        assert len(local.table(experiment)) > 0
        pd.testing.assert_frame_equal(ray.table(experiment), local.table(experiment), check_exact=True)
    assert ray.failed == ()
    assert ray.summary["complete"]
    workers = ray.manifest["hardware"]["workers"]
    assert len(workers) == 2
    assert {one["threads"] for one in workers} == {torch.get_num_threads()}
    assert "workers" not in local.manifest["hardware"]


@needs_ray
def test_failing_units_are_listed_as_in_a_local_run(two_workers, model, tmp_path):
    data = write_data(tmp_path)
    options = SMALL | {"dtype": "bfloat16", "delta": [0.001], "layers": "1", "experiments": ["sweep"]}
    local = pl.run(model, out=tmp_path / "local", **data, **options)
    ray = pl.run(model, out=tmp_path / "ray", executor="ray", **data, **options)
    assert len(local.failed) == 2
    assert ray.manifest["failed_units"] == local.manifest["failed_units"]
    assert not ray.summary["complete"]


def killing(folder: str, once: str, always: str = ""):
    """What makes workers that write down each unit, and die of unit `once` the first time and of unit `always`."""

    def make():
        def do(unit: Unit) -> Outcome:
            import os
            import signal
            from pathlib import Path

            name = unit.items[0][1]
            mark = Path(folder) / name
            with mark.open("a") as file:
                file.write("x")
            if name == always or (name == once and mark.stat().st_size == 1):
                os.kill(os.getpid(), signal.SIGKILL)
            return Outcome([{"nll": float(name)}], tokens=2.0)

        return {"host": "here"}, do

    return make


def outcomes(make, n: int) -> dict[str, Outcome]:
    done = opened(make)
    try:
        found = list(done(units(n), told))
    finally:
        done.close()
    assert len(found) == n
    return {unit.items[0][1]: outcome for unit, outcome in found}


def times_dealt(folder) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir()}


@needs_ray
def test_the_unit_of_a_killed_worker_is_dealt_again(two_workers, tmp_path):
    found = outcomes(killing(str(tmp_path), once="1"), 4)
    assert {name: outcome.rows for name, outcome in found.items()} == {str(k): [{"nll": float(k)}] for k in range(4)}
    assert times_dealt(tmp_path) == {"0": 1, "1": 2, "2": 1, "3": 1}


@needs_ray
@pytest.mark.full
def test_a_unit_that_kills_every_worker_is_given_up_after_three(two_workers, tmp_path):
    found = outcomes(killing(str(tmp_path), once="1", always="3"), 5)
    assert found["3"].rows is None
    assert "3 workers were lost" in found["3"].error
    assert all(outcome.rows for name, outcome in found.items() if name != "3")
    assert times_dealt(tmp_path) == {"0": 1, "1": 2, "2": 1, "3": 3, "4": 1}


@needs_ray
def test_workers_that_never_start_fail_every_unit(two_workers, monkeypatch):
    def make():
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(pool, "FAILED_STARTS", 1)
    found = outcomes(make, 3)
    assert all("no worker could be started" in outcome.error for outcome in found.values())


def test_a_worker_with_another_model_is_refused(model, tmp_path):
    config = resolved(RunConfig(models=(model,), out=tmp_path / "x", **write_data(tmp_path), **SMALL))
    prepared = prepare(config, pl.load(model), read_data(config))
    settings = settings_of(prepared)
    machine, _ = recipe.recipe_of(prepared, {}, settings)()
    assert machine["threads"] == torch.get_num_threads()
    with pytest.raises(UsageError, match="another model_weights than the run") as caught:
        recipe.recipe_of(prepared, {}, settings | {"model_weights": "other"})()
    assert "on the machine" in caught.value.where
    moved = replace(recipe.recipe_of(prepared, {}, settings), source=Source("directory", str(tmp_path / "gone")))
    with pytest.raises(UsageError, match="there is no such file or folder"):
        moved()


@needs_ray
@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGINT", marks=pytest.mark.full)])
def test_an_interrupted_run_ends_its_workers_and_gives_130(two_workers, model, tmp_path, name):
    import ray

    data = write_data(tmp_path)
    command = [sys.executable, "-m", "polarlens.cli.main", "run", model, "--text", data["text"], "--seeds", "2000"]
    command += ["--experiments", "sweep", "--delta", "0.1", "--executor", "ray", "--ray-address", two_workers]
    with subprocess.Popen([*command, "--out", str(tmp_path / "out")], stderr=subprocess.PIPE, text=True) as running:
        while "threads each" not in running.stderr.readline():
            assert running.poll() is None
        time.sleep(2)
        start = time.monotonic()
        running.send_signal(getattr(signal, name))
        _, shown = running.communicate(timeout=30)
    assert running.returncode == 130
    assert time.monotonic() - start < 5
    assert "interrupted" in shown
    deadline = time.monotonic() + 10
    while ray.available_resources().get("CPU") != 2.0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert ray.available_resources()["CPU"] == 2.0


@needs_ray
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "nothing answers at this address"),
        ("nonsense", "this is no address"),
        ("ray://127.0.0.1:10001", "this is no address"),
        ("h:99999", "this is no address"),
    ],
)
def test_an_address_that_cannot_be_reached_is_told_at_once(address, said, tmp_path, monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    data, start = write_data(tmp_path), time.monotonic()
    with pytest.raises(UsageError, match=said) as caught:
        pl.run("twin-rmsnorm", out=tmp_path / "x", executor="ray", ray_address=address, **data, **SMALL)
    assert caught.value.where == f"--ray-address {address}"
    assert time.monotonic() - start < 5
    assert not (tmp_path / "x").exists()


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'polarlens\[ray\]'"):
        pl.run("twin-rmsnorm", out=tmp_path / "x", executor="ray", **write_data(tmp_path), **SMALL)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("options", "said"), [({}, "already loaded"), ({"device": "split"}, "")])
def test_what_workers_cannot_have_is_refused(options, said, model, tmp_path):
    given = pl.load(model) if not options else model
    with pytest.raises(UsageError, match=said or "runs in one process"):
        pl.run(given, out=tmp_path / "x", executor="ray", **options, **write_data(tmp_path), **SMALL)
    assert not (tmp_path / "x").exists()
