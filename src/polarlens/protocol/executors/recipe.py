"""All that a worker needs to make the bench of a run by itself: everything but the model, and how to load that."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from threadpoolctl import threadpool_info, threadpool_limits

from polarlens.errors import PolarlensError, UsageError
from polarlens.protocol.bench import Bench
from polarlens.protocol.config import RunConfig
from polarlens.protocol.environment import hardware, peak_memory_bytes
from polarlens.protocol.executors.work import Outcome, attempt
from polarlens.protocol.plan import Unit
from polarlens.protocol.prepared import Prepared, settings_of
from polarlens.protocol.tasks import TaskData
from polarlens.version import __version__

if TYPE_CHECKING:
    from polarlens.models import LanguageModel
    from polarlens.models.source import Source
    from polarlens.models.tokens import BosPolicy


@dataclass(frozen=True)
class Recipe:
    """How a worker makes its bench.

    source: what the model was read from here, a Hub model with its commit. device: `cpu`, `cuda` or `mps`. threads,
    blas_threads: of torch and of the linear algebra that NumPy and SciPy use, equal everywhere so that sums are taken
    in the same order. weights: bytes. expected: settings and versions that must be the same.
    """

    config: RunConfig
    name: str
    source: "Source"
    device: str
    groups: tuple[tuple[int, ...], ...]
    data: list[TaskData]
    bos: "BosPolicy"
    medians: Mapping[str, Mapping[int, float]]
    threads: int
    blas_threads: int
    weights: int
    expected: Mapping[str, Any]

    def __call__(self) -> tuple[dict[str, Any], Callable[[Unit], Outcome]]:
        """The worker's machine as plain data, and what does a unit there.

        Raises UsageError and ModelError, naming the machine, when the model cannot be had there or is another one.
        """
        torch.set_num_threads(self.threads)
        threadpool_limits(self.blas_threads, user_api="blas")
        try:
            bench = Bench(Prepared(self.config, self._model(), self.groups, self.data, self.bos), self.medians)
            self._check(settings_of(bench.prepared))
        except PolarlensError as error:
            where = f"on the machine {socket.gethostname()}, {error.where or 'a worker'}"
            raise type(error)(error.what, where=where, fix=error.fix) from None

        def do(unit: Unit) -> Outcome:
            tokens = 0.0

            def advance(amount: float, note: str = "") -> None:
                nonlocal tokens
                tokens += amount

            outcome = attempt(bench, unit, advance)
            return Outcome(outcome.rows, outcome.error, tokens, peak_memory_bytes())

        return hardware(bench.prepared.lm.device), do

    def _model(self) -> "LanguageModel":
        from polarlens.models import load

        lm = load(
            self.source.location, device=self.device, dtype=self.config.dtype, revision=self.source.revision,
            trust_pickle=self.config.trust_pickle, trust_remote_code=self.config.trust_remote_code,
        )  # fmt: skip
        lm.name = self.name
        return lm

    def _check(self, settings: Mapping[str, Any]) -> None:
        found = {**settings, **_versions()}
        other = [name for name in self.expected if found.get(name) != self.expected[name]]
        if other:
            raise UsageError(
                f"this worker has another {', '.join(other)} than the run",
                where=self.source.location,
                fix="Give every machine the same files of the model and the same versions of the packages.",
            )

    def empty_cache(self) -> None:
        """Give the device's memory that nothing uses back to other processes."""
        if self.device == "cuda":
            torch.cuda.empty_cache()


def recipe_of(prepared: Prepared, medians: Mapping[str, Mapping[int, float]], settings: Mapping[str, Any]) -> Recipe:
    """The recipe of a prepared run, whose model was loaded by name."""
    lm = prepared.lm
    blas = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    weights = sum(parameter.numel() * parameter.element_size() for parameter in lm.hf.parameters())
    return Recipe(
        prepared.config, lm.name, lm.source, lm.device.type, prepared.groups, prepared.data, prepared.bos, medians,
        torch.get_num_threads(), max(blas, default=1), weights, {**settings, **_versions()},
    )  # fmt: skip


def _versions() -> dict[str, str]:
    return {"polarlens": __version__, "torch": torch.__version__}
