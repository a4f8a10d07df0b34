"""Seconds per stage of the engine, for benchmarks."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


class Stopwatch:
    """seconds: time spent per stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def stage(self, name: str, *inner: str) -> Iterator[None]:
        """Count the time inside the context, without what is counted meanwhile under the stages `inner`."""
        start, before = time.perf_counter(), sum(self.seconds[n] for n in inner)
        try:
            yield
        finally:
            within = sum(self.seconds[n] for n in inner) - before
            self.seconds[name] += time.perf_counter() - start - within

    @contextmanager
    def calls_of(self, module: nn.Module, name: str) -> Iterator[None]:
        """Count the time of every call of a module."""
        started: list[float] = []
        before = module.register_forward_pre_hook(lambda *_: started.append(time.perf_counter()))

        def stop(*_: Any) -> None:
            self.seconds[name] += time.perf_counter() - started.pop()

        after = module.register_forward_hook(stop)
        try:
            yield
        finally:
            before.remove()
            after.remove()
