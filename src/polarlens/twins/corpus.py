"""Training text: files to paragraphs, with whole files held out for evaluation."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from polarlens.data.formats import BadRecord, decode_lines
from polarlens.errors import UsageError

# One file in so many is held out; of fewer files, the last paragraphs of each are.
HELD_OUT_OF = 10
WORDS_PER_TOKEN = 0.7
MIN_TOKENS = 100_000


@dataclass(frozen=True)
class Corpus:
    """Paragraphs to train on and paragraphs never seen in training. held_out_files: empty where files were cut."""

    training: tuple[str, ...]
    held_out: tuple[str, ...]
    files: tuple[str, ...]
    held_out_files: tuple[str, ...]
    digest: str


def read_corpus(paths: Sequence[str | Path]) -> Corpus:
    """Read .txt files, or all .txt files under folders, in an order that depends on names alone.

    Raises UsageError for a missing path, a folder without text, text that is not UTF-8 (with the byte offset), and
    less text than about 100,000 tokens.
    """
    files = sorted({file for path in paths for file in _files(Path(path))}, key=lambda file: (file.name, str(file)))
    texts = {file: _paragraphs(file) for file in files}
    words = sum(len(paragraph.split()) for paragraphs in texts.values() for paragraph in paragraphs)
    if words < MIN_TOKENS * WORDS_PER_TOKEN:
        raise UsageError(
            f"{words:,} words are too few to train on",
            where=", ".join(str(path) for path in paths),
            fix=f"Give at least {round(MIN_TOKENS * WORDS_PER_TOKEN):,} words, about {MIN_TOKENS:,} tokens.",
        )
    digest = hashlib.sha256("\n".join(p for paragraphs in texts.values() for p in paragraphs).encode()).hexdigest()[:16]
    names = tuple(file.name for file in files)
    if len(files) >= HELD_OUT_OF:
        # By a hash of the name, so that adding a file moves no other.
        ranked = sorted(files, key=lambda file: hashlib.sha256(file.name.encode()).hexdigest())
        out = set(ranked[: len(files) // HELD_OUT_OF])
        training = [p for file in files if file not in out for p in texts[file]]
        held_out = [p for file in files if file in out for p in texts[file]]
        return Corpus(tuple(training), tuple(held_out), names, tuple(sorted(file.name for file in out)), digest)
    parts = [(paragraphs, max(1, len(paragraphs) // HELD_OUT_OF)) for paragraphs in texts.values()]
    training = [p for paragraphs, n in parts for p in paragraphs[:-n]]
    held_out = [p for paragraphs, n in parts for p in paragraphs[-n:]]
    return Corpus(tuple(training), tuple(held_out), names, (), digest)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(file for file in path.rglob("*.txt") if file.is_file())
        if not found:
            raise UsageError("the folder holds no .txt file", where=str(path), fix="Give text files, or their folder.")
        return found
    if not path.is_file():
        raise UsageError("there is no such file", where=str(path), fix="Give text files, or their folder.")
    return [path]


def _paragraphs(file: Path) -> list[str]:
    """Paragraphs are parted by blank lines; line breaks and runs of spaces within one become single spaces."""
    try:
        lines = decode_lines(file.read_bytes())
    except BadRecord as error:
        raise UsageError(error.what, where=f"{file}, line {error.line}", fix=f"{error.fix}.") from None
    except OSError as error:
        raise UsageError(
            f"the file cannot be read: {error.strerror}", where=str(file), fix="Check its rights."
        ) from None
    paragraphs, current = [], list[str]()
    for line in [*lines, ""]:
        if line.strip():
            current += line.split()
        elif current:
            paragraphs.append(" ".join(current))
            current = []
    return paragraphs
