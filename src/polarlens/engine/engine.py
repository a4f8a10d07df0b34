"""One clean pass per batch, then conditions in stacks of K from the first perturbed block on."""

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Many
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from polarlens.engine.batching import Batch
from polarlens.engine.checkpoints import Checkpoint
from polarlens.engine.conditions import Condition, Protocol, eligible
from polarlens.engine.outcome import Clean, Outcome, Realised
from polarlens.engine.scoring import log_probabilities, only_positions, score
from polarlens.engine.stack import Stack, draw_order, unmoved
from polarlens.engine.stopwatch import Stopwatch
from polarlens.engine.suffix import Edit, captured, detached, edited, hidden_of, started_at
from polarlens.errors import NumericalError
from polarlens.models.hooks import with_first
from polarlens.perturbation import norms

if TYPE_CHECKING:
    from polarlens.models import LanguageModel

Hooks = AbstractContextManager[Any]


class Engine:
    """Runs clean and perturbed passes of one model under one protocol and restores the model after each.

    The sweep, repair and propagation are the same passes: they differ in the `hooks` that are on the model meanwhile.
    seconds: time spent per stage, for benchmarks.
    """

    def __init__(self, lm: "LanguageModel", protocol: Protocol, *, kl: bool) -> None:
        self.lm, self.protocol, self.kl = lm, protocol, kl
        self.watch = Stopwatch()

    @property
    def seconds(self) -> dict[str, float]:
        """Time spent per stage."""
        return self.watch.seconds

    def clean(self, batch: Batch, hooks: Hooks | None = None) -> Clean:
        """The unperturbed pass: scores, the state to start from, and the norms that decide who takes part."""
        layers = self.protocol.layers
        outputs: dict[int, Any] = {}
        measured: dict[int, Tensor] = {}

        def keep(layer: int, output: Any) -> None:
            if layer == layers[0]:
                outputs[layer] = detached(output)
            measured[layer] = norms(hidden_of(output)).cpu()

        with self.watch.stage("clean", "head"), captured(self.lm.blocks, layers, keep), hooks or nullcontext():
            logits = self._logits(batch, 1)
        nll, _ = self._score(logits, batch, 1, None)
        logp = log_probabilities(logits) if self.kl else None
        return Clean(outputs[layers[0]], measured, logp, nll[0])

    def control(self, batch: Batch, clean: Clean) -> Outcome:
        """The delta = 0 control: both arms' code applied with nothing asked, in one pass of the clean pass's shape."""
        nothing = partial(unmoved, protocol=self.protocol, batch=batch)
        edits = {n: partial(nothing, layer=n) for n in self.protocol.layers}
        logits = self._suffix(batch, 1, self.protocol.layers[0], _repeated(clean.output, 1), edits)
        nll, kl = self._score(logits, batch, 1, clean)
        chosen = eligible(batch, "all", clean.norms).sum(-1).numpy()
        return _outcome(batch, nll[0], None if kl is None else kl[0], chosen, chosen * 0, Realised.nothing(batch.shape))

    def perturbed(
        self, batch: Batch, clean: Clean, conditions: Many[Condition], tokens: int
    ) -> Iterator[tuple[Condition, Outcome]]:
        """Outcomes of all conditions, in an order that shares draws; at most `tokens` padded tokens are run at once."""
        for stack in self.stacks(batch, clean, conditions, tokens):
            yield from zip(stack.conditions, self.run(batch, clean, stack), strict=True)

    def stacks(self, batch: Batch, clean: Clean, conditions: Many[Condition], tokens: int) -> Iterator[Stack]:
        """The conditions in stacks of at most `tokens` padded tokens (one condition at least), to be `run`."""
        copies = max(1, tokens // (batch.shape[0] * batch.shape[1]))
        ordered = sorted(conditions, key=draw_order)
        for start in range(0, len(ordered), copies):
            yield Stack(self.lm, self.protocol, batch, clean, ordered[start : start + copies], self.watch)

    def run(
        self, batch: Batch, clean: Clean, stack: Stack, hooks: Hooks | None = None, start: Checkpoint | None = None
    ) -> list[Outcome]:
        """The outcome of each condition of a stack, with further `hooks` on the model while it runs.

        start: where an earlier pass over the stack stood, to go on from there.
        """
        copies = len(stack.conditions)
        nll, kl = self._score(self.states(batch, clean, stack, hooks, start=start), batch, copies, clean)
        return [
            _outcome(
                batch, nll[k], None if kl is None else kl[k], stack.chosen[k].sum(-1).numpy(),
                ((stack.chosen[k] & ~stack.possible[k]) | stack.realised[k].left).sum(-1).numpy(), stack.realised[k],
            )
            for k in range(copies)
        ]  # fmt: skip

    def states(
        self,
        batch: Batch,
        clean: Clean,
        stack: Stack,
        hooks: Hooks | None = None,
        *,
        start: Checkpoint | None = None,
        logits: bool = True,
    ) -> Tensor:
        """One perturbed pass: (K·N, V) logits at the scored positions; none are computed unless `logits`."""
        layers, copies = self.protocol.layers, len(stack.conditions)
        if start is None:
            stack.restart()
            first, output = layers[0], _repeated(clean.output, copies)
        else:
            first, output = start.layer, start.resume(stack)
            layers = tuple(layer for layer in layers if layer > first)
        edits = {layer: partial(stack.edit, layer=layer) for layer in layers}
        return self._suffix(batch, copies, first, output, edits, hooks, logits=logits)

    def unperturbed(self, batch: Batch, clean: Clean, hooks: Hooks) -> None:
        """A clean pass from the first perturbed block on, only for what the `hooks` see."""
        self._suffix(batch, 1, self.protocol.layers[0], _repeated(clean.output, 1), {}, hooks, logits=False)

    def _suffix(
        self,
        batch: Batch,
        copies: int,
        first: int,
        output: Any,
        edits: Mapping[int, Edit],
        hooks: Hooks | None = None,
        *,
        logits: bool = True,
    ) -> Tensor:
        """A pass over `copies` copies of the batch in which block `first` returns `output`, as `_logits`."""
        with ExitStack() as entered:
            entered.enter_context(self.watch.stage("suffix", "head", "perturb", "draw"))
            entered.enter_context(started_at(self.lm.blocks, first, output))
            entered.enter_context(edited(self.lm.blocks, edits))
            entered.enter_context(hooks or nullcontext())
            return self._logits(batch, copies, wanted=logits)

    def _logits(self, batch: Batch, copies: int, *, wanted: bool = True) -> Tensor:
        """(copies·N, V) logits at the scored positions of `copies` stacked copies of the batch; none if not wanted."""
        device, (rows, width) = self.lm.device, batch.shape
        offsets = torch.arange(copies)[:, None] * (rows * width)
        scored = batch.scored if wanted else batch.scored[:0]
        index = (scored[None, :] + offsets).reshape(-1).to(device)
        ids, mask = (t.repeat(copies, 1).to(device) for t in (batch.ids, batch.mask))
        with only_positions(self.lm.head, index), self.watch.calls_of(self.lm.head, "head"), torch.no_grad():
            logits: Tensor = self.lm.hf(input_ids=ids, attention_mask=mask, use_cache=False).logits
        return logits.reshape(-1, logits.shape[-1])

    def _score(self, logits: Tensor, batch: Batch, copies: int, clean: Clean | None) -> tuple[Tensor, Tensor | None]:
        """(copies, N) nll and KL."""
        targets = batch.targets.to(logits.device)
        with self.watch.stage("score"), torch.no_grad():
            scores = [
                score(part, targets, clean.logp if clean is not None else None)
                for part in torch.split(logits, batch.targets.shape[0])
            ]
        nll = torch.stack([s[0] for s in scores]).cpu()
        kl = None if clean is None or clean.logp is None else torch.stack([s[1] for s in scores]).cpu()  # type: ignore[misc]
        self._check_finite(nll, "the log-probability", batch)
        if kl is not None:
            self._check_finite(kl, "the KL divergence", batch)
        return nll, kl

    def _check_finite(self, values: Tensor, what: str, batch: Batch) -> None:
        wrong = (~values.isfinite()).nonzero()
        if len(wrong):
            n = int(wrong[0, -1])
            row, token = int(batch.row_of[n]), int(batch.scored[n]) % batch.shape[1]
            raise NumericalError(
                f"{what} is not finite",
                where=f"{self.lm.name}, item {batch.sequences[row].item}, token {token}",
                fix="Run in float32, or with a smaller delta.",
            )


def _repeated(output: Any, copies: int) -> Any:
    """What a block returned for a batch, for `copies` copies of it."""
    state = hidden_of(output)
    return with_first(output, state.repeat(copies, *[1] * (state.dim() - 1)))


def _outcome(batch: Batch, nll: Tensor, kl: Tensor | None, chosen: Any, infeasible: Any, realised: Realised) -> Outcome:
    return Outcome(
        batch.sum_rows(nll).numpy(), None if kl is None else batch.sum_rows(kl).numpy(), chosen, infeasible, realised
    )
