"""What comes with the package: the twins, sample data, and the configuration of the run without arguments."""

from pathlib import Path

from polarlens.errors import UsageError

FOLDER = Path(__file__).parent
TWINS = ("twin-layernorm", "twin-rmsnorm")
PASSAGES, PAIRS, TREES = "passages.txt", "pairs.jsonl", "trees.conllu"
CONFIGURATION = "bundled.yaml"


def path(name: str) -> Path:
    """Where a bundled file or folder lies.

    Raises UsageError when the installation lacks it.
    """
    found = FOLDER / name
    if not found.exists():
        raise UsageError(
            f"{name} is not part of this installation",
            where=str(FOLDER),
            fix="Install the package again; the twins are made by `polarlens twins train`.",
        )
    return found
