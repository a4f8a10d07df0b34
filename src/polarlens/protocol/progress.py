"""Progress of long work on stderr: a bar with an ETA on a terminal, a plain line now and then elsewhere, or nothing."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PLAIN_EVERY = 15.0  # seconds


class Advance(Protocol):
    """Told the amount of work just done, and a few words to show beside the progress."""

    def __call__(self, amount: float, note: str = "") -> None:
        """Add `amount`; `note` replaces the one before."""


def say(message: str, *, quiet: bool) -> None:
    """One line for the user, on stderr."""
    if not quiet:
        print(message, file=sys.stderr, flush=True)


@contextmanager
def tracked(total: float, what: str, *, quiet: bool) -> Iterator[Advance]:
    """Yield a function that takes the amount of work just done, out of `total`."""
    if quiet:
        yield lambda amount, note="": None
    elif sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("ETA"), TimeRemainingColumn())  # fmt: skip # noqa: E501
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total)
            yield lambda amount, note="": bar.update(task, advance=amount, description=f"{what} {note}".strip())
    else:
        yield _plain_lines(total, what)


def _plain_lines(total: float, what: str) -> Advance:
    start = last = time.monotonic()
    done = 0.0

    def advance(amount: float, note: str = "") -> None:
        nonlocal done, last
        done += amount
        now = time.monotonic()
        if now - last >= PLAIN_EVERY or done >= total:
            last = now
            left = (now - start) * (total / done - 1) if done else 0.0
            shown = f"{what}: {min(1.0, done / total):4.0%}, about {left:.0f} s left"
            print(f"{shown}, {note}" if note else shown, file=sys.stderr, flush=True)

    return advance
