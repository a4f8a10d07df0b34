"""The command line from the outside: exit status, one message, nothing written, no traceback."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import polarlens
from polarlens.cli.main import main
from polarlens.errors import ModelError
from polarlens.protocol.result import Run

SUMMARY = {"schema": 1, "model": "tiny[0]", "verdict": {"kind": "crossed"}}


def process(*arguments: str, code: str | None = None, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "polarlens.cli.main"]
    return subprocess.run([*command, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: Any) -> None:
    """Put a module with these attributes in the place of one of the package's."""
    module = ModuleType(name)
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """A runner that notes the configurations it is given and returns, or raises, what the test says."""
    note = SimpleNamespace(configs=[], outcome=Run(tmp_path, SUMMARY, {}))

    def execute(config: Any) -> Any:
        note.configs.append(config)
        if isinstance(note.outcome, BaseException):
            raise note.outcome
        return note.outcome

    stand_in(monkeypatch, "polarlens.protocol.runner", execute=execute)
    stand_in(monkeypatch, "polarlens.report", render_text=lambda summary, folder: f"model {summary['model']}")
    monkeypatch.chdir(tmp_path)
    return note


BAD_USAGE = [
    (["run", "--text", "a.txt"], "no such file"),
    (["run", "x", "--delta", "-1"], "--delta: -1 is not a displacement"),
    (["run", "x", "--delta", "nan"], "--delta: nan is not a displacement"),
    (["run", "x", "--delta", "[bold]"], "'[bold]' is not a number"),
    (["run", "x", "--delta", "1"], "--delta: 1 is no relative displacement"),
    (["run", "x", "--layers", "9-3"], "--layers: the range 9-3 runs backwards"),
    (["run", "x", "--max-tokens", "1"], "--max-tokens: 1 is too small"),
    (["run", "x", "--lyers", "3"], "--layers"),
    (["run", "x", "--zzzz"], "the nearest known one: --"),
    (["run", "x", "--delta"], "--delta"),
    (["run", "x", "--overwrite=yes"], "--overwrite"),
    (["run", "x", "--executor", "dask"], "--executor: 'dask' is not one of"),
    (["run", "x", "--ray-address", "auto"], "--ray-address: an address of Ray is given"),
    (["run", "x", "--experiments", "sweep,probing"], "--treebank: probing needs a treebank, and none is named"),
    (["run", "x", "--ci-width", "0"], "--ci-width: 0 is too small; it must lie above 0"),
    (["run", "x", "--ci-width", "0.1", "--pairs", "p.jsonl"], "--ci-width: this is the precision of the sweep's loss"),
    (["run", "x", "--treebank", "a.conllu"], "a.conllu: "),
    (["run", "x", "--treebank", "bundled", "--treebank-limit", "20"], "--treebank-limit: 20 is too small"),
    (["run", "x", "x"], "MODEL: x is named twice"),
    (["run", "x", "--config", "none.yaml"], "none.yaml: cannot be read"),
    (["report", "none"], "none: this folder holds no run"),
    (["compare"], "RUN"),
    (["compare", "none"], "a comparison needs two runs or more"),
    (["compare", "none", "./none"], "this run is given twice"),
    (["compare", "none", "nothing"], "none: this folder holds no run"),
    (["check"], "MODEL"),
    (["check", "x", "--device", "gpu"], "--device: 'gpu' is not a device"),
    (["rnu", "x"], "'run'"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD_USAGE, ids=[" ".join(case[0]) for case in BAD_USAGE])
def test_bad_usage_is_one_message_and_writes_nothing(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_program_answers_the_same_from_a_shell(tmp_path: Path) -> None:
    done = process("run", "x", "--delta", "-1", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "polarlens: --delta: -1 is not a displacement; a delta is a finite number above 0\n"
    assert list(tmp_path.iterdir()) == []


def test_help_version_and_usage_errors_load_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, polarlens\nfrom polarlens.cli.main import main\n"
        "for arguments in (['--version'], ['run', '--help'], ['run', 'x', '--delta', '-1']): main(arguments)\n"
        "print(sorted({'torch', 'transformers', 'pandas', 'numpy', 'altair'} & set(sys.modules)))"
    )
    done = process(code=code, cwd=tmp_path)
    first, *_, last = done.stdout.splitlines()
    assert first == polarlens.__version__
    assert last == "[]"


def test_help_names_every_supported_option_and_none_of_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    for option in (
        "--text",
        "--pairs",
        "--layers",
        "--delta-mode",
        "--seeds",
        "--out",
        "--config",
        "--treebank",
        "--ci-width",
        "--json",
    ):
        assert option in shown


@pytest.mark.parametrize(
    ("out", "said"),
    [("file/run", "this is a file, not a folder"), ("locked/run", "the folder cannot be written")],
)
def test_an_out_folder_that_cannot_be_written_is_refused_first(
    out: str,
    said: str,
    executed: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "locked").mkdir()
    reachable = os.access
    # Root may write anywhere, so the refusal of a read-only file system is imitated.
    monkeypatch.setattr(os, "access", lambda path, mode: "locked" not in str(path) and reachable(path, mode))
    assert main(["run", "x", "--out", out]) == 2
    assert said in capsys.readouterr().err
    assert executed.configs == []
    assert not (tmp_path / out).exists()


def test_options_reach_the_run_and_its_summary_goes_to_stdout(
    executed: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text("seeds: 2\nlayers: middle\npairs: [z.jsonl]\noverwrite: true\n")
    line = "run gpt2 --config s.yaml --layers 4,6 --pairs a.jsonl --pairs b.jsonl --delta 0.1,0.2 --limit 5 --quiet"
    assert main(line.split()) == 0
    captured = capsys.readouterr()
    assert captured.out == "model tiny[0]\n"
    assert captured.err == ""
    config = executed.configs[0]
    assert (config.models, config.layers, config.pairs) == (("gpt2",), "4,6", ("a.jsonl", "b.jsonl"))
    assert (config.seeds, config.delta, config.limit, config.quiet, config.overwrite) == (2, (0.1, 0.2), 5, True, True)


def test_json_is_one_document(executed: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "gpt2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == SUMMARY


def test_failed_units_are_listed_and_give_4(
    executed: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    executed.outcome = Run(tmp_path, SUMMARY, {}, failed=("unit a: off by 2 %", "unit b"))
    assert main(["run", "gpt2"]) == 4
    captured = capsys.readouterr()
    assert captured.out == "model tiny[0]\n"
    assert captured.err == "failed: unit a: off by 2 %\nfailed: unit b\n"


def test_a_dry_run_prints_no_summary(executed: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    executed.outcome = SimpleNamespace(units=3)
    assert main(["run", "gpt2", "--dry-run"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("outcome", "status", "said"),
    [
        (ModelError("encoder [CLS] only", where="bert"), 3, "polarlens: bert: encoder [CLS] only\n"),
        (OSError(28, "No space left on device", "rows/x"), 2, "polarlens: rows/x: No space left on device\n"),
        (KeyboardInterrupt(), 130, "polarlens: interrupted; what was finished is kept"),
    ],
)
def test_errors_of_a_run_are_one_message(
    outcome: BaseException, status: int, said: str, executed: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    executed.outcome = outcome
    assert main(["run", "gpt2"]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(said)
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("outcome", [ValueError("shape"), OSError(5, "Input/output error")])
def test_a_bug_shows_its_traceback_and_gives_1(
    outcome: Exception, executed: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    executed.outcome = outcome
    assert main(["run", "gpt2"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert str(outcome) in shown
    assert "this is a bug" in shown


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_signals_end_a_run_with_130(name: str, tmp_path: Path) -> None:
    code = (
        "import signal, sys, time, types\nfrom polarlens.cli.main import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a parent in the background ignores it
        "def execute(config):\n    print('started', flush=True)\n    time.sleep(60)\n"
        "sys.modules['polarlens.protocol.runner'] = types.SimpleNamespace(execute=execute)\n"
        "sys.exit(main(['run', 'x']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "started\n"
        running.send_signal(getattr(signal, name))
        _, shown = running.communicate(timeout=30)
    assert running.returncode == 130
    assert shown.startswith("polarlens: interrupted")
    assert shown.count("\n") == 1


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    code = (
        "import sys, types, pathlib\nfrom polarlens.cli.main import main\nfrom polarlens.protocol.result import Run\n"
        "import time; time.sleep(0.2)\n"
        "result = Run(pathlib.Path('.'), {}, {})\n"
        "sys.modules['polarlens.protocol.runner'] = types.SimpleNamespace(execute=lambda config: result)\n"
        "sys.modules['polarlens.report'] = types.SimpleNamespace(render_text=lambda *_: 'long ' * 100_000)\n"
        "sys.exit(main(['run', 'x']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        shown = running.stderr.read()
        deadline = time.monotonic() + 30
        while running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
    assert (running.returncode, shown) == (0, "")


class Checked:
    def __str__(self) -> str:
        return "family [gpt2]"

    def as_dict(self) -> dict[str, str]:
        return {"family": "gpt2"}


@pytest.mark.parametrize(
    ("extra", "out"), [([], "family [gpt2]\n"), (["--json"], '{\n  "family": "gpt2"\n}\n')], ids=["text", "json"]
)
def test_check_loads_the_model_and_prints_what_was_found(
    extra: list[str], out: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []
    models = ModuleType("polarlens.models")
    vars(models).update(load=lambda name, **options: asked.append((name, options)), check=lambda lm: Checked())
    monkeypatch.setitem(sys.modules, "polarlens.models", models)
    monkeypatch.setattr(polarlens, "models", models, raising=False)
    assert main(["check", "gpt2", "--dtype", "float64", "--trust-pickle", *extra]) == 0
    assert capsys.readouterr().out == out
    options = {"device": "cpu", "dtype": "float64", "trust_pickle": True, "trust_remote_code": False}
    assert asked == [("gpt2", options)]


def test_report_rebuilds_and_prints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []
    rebuild = lambda folder: asked.append(folder) or SUMMARY  # noqa: E731
    stand_in(monkeypatch, "polarlens.protocol.summarise", rebuild=rebuild)
    stand_in(monkeypatch, "polarlens.report", render_text=lambda summary, folder: summary["model"])
    assert main(["report", str(tmp_path)]) == 0
    assert asked == [tmp_path]
    assert capsys.readouterr().out == "tiny[0]\n"


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_a_loaded_model_is_handed_to_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []
    execute = lambda config, model=None: seen.append((config, model)) or Run(tmp_path, SUMMARY, {})  # noqa: E731
    stand_in(monkeypatch, "polarlens.protocol.runner", execute=execute)
    model = SimpleNamespace(name="org/tiny", anatomy=None)
    assert polarlens.run(model, layers=[4, 6], pairs=[Path("a.jsonl")]).summary == SUMMARY
    assert polarlens.run("org/tiny").summary == SUMMARY
    config, used = seen[0]
    assert (config.models, config.layers, config.pairs, used) == (("org/tiny",), "4,6", ("a.jsonl",), model)
    assert seen[1][1] is None


def test_the_public_names_are_all_there() -> None:
    for name in polarlens.__all__:
        assert getattr(polarlens, name) is not None
    assert callable(polarlens.run)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        polarlens.nothing  # noqa: B018
