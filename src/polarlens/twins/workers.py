"""Both twins trained side by side, each in a process of its own."""

import signal
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np

from polarlens.errors import PolarlensError
from polarlens.twins.recipe import NORMS, Norm, Recipe

Told = Callable[[Norm, int, float], None]
"""Told which twin, the steps it has done, and its last loss."""

MEASURED_STEPS = 20
_POLL_SECONDS = 0.5


def checkpoint_of(work: Path, norm: Norm) -> Path:
    """Where a twin's checkpoint lies."""
    return work / f"{norm}.pt"


def train_both(recipe: Recipe, work: Path, told: Told) -> dict[Norm, float]:
    """Train both twins on `work/rows.npy`, from their checkpoints where there are any.

    Returns each twin's training time in seconds; the weights lie in the checkpoints. An interruption saves both and
    then goes on as KeyboardInterrupt. Raises PolarlensError when a process ends without a result.
    """
    return _side_by_side(partial(_train_in_child, recipe, work), told)


def seconds_per_step(recipe: Recipe, work: Path) -> float:
    """The slower twin's time for a step, over 20 steps with both at work, after two that are not counted."""
    return max(_side_by_side(partial(_measure_in_child, recipe, work), lambda *_: None).values()) / MEASURED_STEPS


def _side_by_side(work: Callable[..., float], told: Told) -> dict[Norm, float]:
    context = get_context("spawn")
    news: Queue[Any] = context.Queue()
    stop = context.Event()
    processes = {norm: context.Process(target=_child, args=(work, norm, news, stop), daemon=True) for norm in NORMS}
    for process in processes.values():
        process.start()
    seconds: dict[Norm, float] = {}
    try:
        while len(seconds) < len(NORMS):
            try:
                norm, step, value = news.get(timeout=_POLL_SECONDS)
            except Empty:
                for norm, process in processes.items():
                    if process.exitcode is not None and norm not in seconds and news.empty():
                        raise PolarlensError(
                            f"the process of the {norm} twin ended with exit status {process.exitcode}",
                            where="twins train",
                            fix="Run the same command again: it goes on from the last checkpoint.",
                        ) from None
                continue
            if step is None:
                seconds[norm] = value
            else:
                told(norm, step, value)
    finally:
        stop.set()
        for process in processes.values():
            process.join(timeout=60)
            process.kill()
    return seconds


def _child(work: Callable[..., float], norm: Norm, news: "Queue[Any]", stop: Event) -> None:
    # The parent alone answers an interruption: a step is finished and saved before the process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    seconds = work(norm, news, stop)
    if not stop.is_set():
        news.put((norm, None, seconds))


def _train_in_child(recipe: Recipe, work: Path, norm: Norm, news: "Queue[Any]", stop: Event) -> float:
    from polarlens.twins.training import train

    rows = np.load(work / "rows.npy", mmap_mode="r")

    def report(step: int, loss: float) -> None:
        news.put((norm, step, loss))

    return train(norm, recipe, rows, checkpoint_of(work, norm), report, stop.is_set)


def _measure_in_child(recipe: Recipe, work: Path, norm: Norm, news: "Queue[Any]", stop: Event) -> float:
    import time

    import torch

    from polarlens.twins.architecture import build
    from polarlens.twins.training import optimiser_of, train_step

    torch.set_num_threads(recipe.threads)
    rows = np.load(work / "sample.npy")
    model = build(norm, recipe).train()
    optimiser = optimiser_of(model, recipe)
    for step in range(MEASURED_STEPS + 2):
        if step == 2:
            started = time.monotonic()
        if stop.is_set():
            return 0.0
        train_step(model, optimiser, rows, step % (len(rows) // recipe.batch), recipe)
    return time.monotonic() - started
