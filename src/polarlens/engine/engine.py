"""One clean pass per batch, then conditions in stacks of K from the first perturbed block on."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Many
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from polarlens.engine.batching import Batch
from polarlens.engine.conditions import Condition, Protocol, eligible, feasible
from polarlens.engine.outcome import Clean, Outcome, Realised
from polarlens.engine.scoring import log_probabilities, only_positions, score
from polarlens.engine.suffix import captured, edited, hidden_of, started_at
from polarlens.errors import NumericalError
from polarlens.models.hooks import with_first
from polarlens.perturbation import ARMS, coins, displace, gaussian, norms
from polarlens.perturbation.displace import TokenError
from polarlens.perturbation.policy import Arm, Policy

if TYPE_CHECKING:
    from polarlens.models import LanguageModel


class Engine:
    """Runs clean and perturbed passes of one model under one protocol and restores the model after each.

    seconds: time spent per stage, for benchmarks.
    """

    def __init__(self, lm: "LanguageModel", protocol: Protocol, *, kl: bool) -> None:
        self.lm, self.protocol, self.kl = lm, protocol, kl
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    @contextmanager
    def _timed(self, module: nn.Module, name: str) -> Iterator[None]:
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

    def _logits(self, batch: Batch, copies: int) -> Tensor:
        """(copies·N, V) logits at the scored positions of `copies` stacked copies of the batch."""
        device, (rows, width) = self.lm.device, batch.shape
        offsets = torch.arange(copies)[:, None] * (rows * width)
        index = (batch.scored[None, :] + offsets).reshape(-1).to(device)
        ids, mask = (t.repeat(copies, 1).to(device) for t in (batch.ids, batch.mask))
        with only_positions(self.lm.head, index), self._timed(self.lm.head, "head"), torch.no_grad():
            logits: Tensor = self.lm.hf(input_ids=ids, attention_mask=mask, use_cache=False).logits
        return logits.reshape(-1, logits.shape[-1])

    def _score(self, logits: Tensor, batch: Batch, copies: int, clean: Clean | None) -> tuple[Tensor, Tensor | None]:
        """(copies, N) nll and KL."""
        targets = batch.targets.to(logits.device)
        with self._stage("score"), torch.no_grad():
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

    def clean(self, batch: Batch) -> Clean:
        """The unperturbed pass: scores, the state to start from, and the norms that decide who takes part."""
        layers = self.protocol.layers
        outputs: dict[int, Any] = {}
        measured: dict[int, Tensor] = {}

        def keep(layer: int, output: Any) -> None:
            hidden = hidden_of(output)
            if layer == layers[0]:
                # Cloned, since some blocks write into their output; nothing reads a tuple's other elements.
                rest = (None,) * (len(output) - 1) if isinstance(output, tuple) else ()
                outputs[layer] = (hidden.clone(), *rest) if isinstance(output, tuple) else hidden.clone()
            measured[layer] = norms(hidden).cpu()

        start, head = time.perf_counter(), self.seconds["head"]
        with captured(self.lm.blocks, layers, keep):
            logits = self._logits(batch, 1)
        self.seconds["clean"] += time.perf_counter() - start - (self.seconds["head"] - head)
        nll, _ = self._score(logits, batch, 1, None)
        logp = log_probabilities(logits) if self.kl else None
        return Clean(outputs[layers[0]], measured, logp, nll[0])

    def control(self, batch: Batch, clean: Clean) -> Outcome:
        """The delta = 0 control: both arms' code applied with nothing asked, in one pass of the clean pass's shape."""
        policy = next(iter(self.protocol.policies.values()))
        nothing = torch.zeros(batch.shape, dtype=torch.float64, device=self.lm.device)

        def edit(hidden: Tensor, layer: int) -> Tensor:
            for arm in ARMS:
                draw = self._draw(batch, policy, arm, 0, layer).to(hidden.device)
                reference = self.protocol.references.get(layer)
                hidden = displace(hidden, arm=arm, policy=policy, draw=draw, delta=nothing, reference=reference).state
            return hidden

        logits = self._run_suffix(batch, clean, 1, {n: lambda h, n=n: edit(h, n) for n in self.protocol.layers})
        nll, kl = self._score(logits, batch, 1, clean)
        chosen = eligible(batch, "all", clean.norms).sum(-1).numpy()
        return self._outcome(
            batch, nll[0], None if kl is None else kl[0], chosen, chosen * 0, Realised.nothing(batch.shape)
        )

    def perturbed(
        self, batch: Batch, clean: Clean, conditions: Many[Condition], tokens: int
    ) -> Iterator[tuple[Condition, Outcome]]:
        """Outcomes of all conditions, in an order that shares draws; at most `tokens` padded tokens are run at once."""
        copies = max(1, tokens // (batch.shape[0] * batch.shape[1]))
        ordered = sorted(conditions, key=_draw_order)
        for start in range(0, len(ordered), copies):
            stack = ordered[start : start + copies]
            yield from zip(stack, self._run_stack(batch, clean, stack), strict=True)

    def _run_stack(self, batch: Batch, clean: Clean, stack: Many[Condition]) -> list[Outcome]:
        chosen = [eligible(batch, c.positions, clean.norms) for c in stack]
        possible = [feasible(self.protocol, c.delta, clean.norms) for c in stack]
        apply = [self.protocol.policies[c.policy_id].level("infeasible", c.arm) == "apply" for c in stack]
        part = [e if a else e & f for e, f, a in zip(chosen, possible, apply, strict=True)]
        realised = [Realised.nothing(batch.shape) for _ in stack]
        draws: dict[tuple[object, ...], Tensor] = {}

        def edit(hidden: Tensor, layer: int) -> Tensor:
            with self._stage("perturb"):
                return torch.cat(
                    [
                        self._displace(batch, state, condition, layer, takes_part, measured, draws)
                        for state, condition, takes_part, measured in zip(
                            torch.split(hidden, batch.shape[0]), stack, part, realised, strict=True
                        )
                    ]
                )

        edits = {layer: (lambda h, layer=layer: edit(h, layer)) for layer in self.protocol.layers}
        logits = self._run_suffix(batch, clean, len(stack), edits)
        nll, kl = self._score(logits, batch, len(stack), clean)
        return [
            self._outcome(
                batch, nll[k], None if kl is None else kl[k], chosen[k].sum(-1).numpy(),
                ((chosen[k] & ~possible[k]) | realised[k].left).sum(-1).numpy(), realised[k],
            )
            for k in range(len(stack))
        ]  # fmt: skip

    def _run_suffix(self, batch: Batch, clean: Clean, copies: int, edits: Mapping[int, Any]) -> Tensor:
        state = hidden_of(clean.output)
        output = with_first(clean.output, state.repeat(copies, *[1] * (state.dim() - 1)))
        start = time.perf_counter()
        inner = sum(self.seconds[s] for s in ("head", "perturb", "draw"))
        with ExitStack() as entered:
            entered.enter_context(started_at(self.lm.blocks, self.protocol.layers[0], output))
            entered.enter_context(edited(self.lm.blocks, edits))
            logits = self._logits(batch, copies)
        inner = sum(self.seconds[s] for s in ("head", "perturb", "draw")) - inner
        self.seconds["suffix"] += time.perf_counter() - start - inner
        return logits

    def _draw(self, batch: Batch, policy: Policy, arm: Arm, seed: int, layer: int) -> Tensor:
        with self._stage("draw"):
            width = batch.shape[1]
            if arm == "magnitude":
                return torch.from_numpy(coins(policy, arm, seed, layer, batch.sequences, length=width))
            return torch.from_numpy(gaussian(policy, arm, seed, layer, batch.sequences, self.lm.width, length=width))

    def _displace(
        self, batch: Batch, state: Tensor, condition: Condition, layer: int,
        takes_part: Tensor, measured: Realised, draws: dict[tuple[object, ...], Tensor],
    ) -> Tensor:  # fmt: skip
        policy = self.protocol.policies[condition.policy_id]
        key = (condition.policy_id, condition.arm, condition.seed, layer)
        if key not in draws:
            draws[key] = self._draw(batch, policy, condition.arm, condition.seed, layer).to(state.device)
        asked = self.protocol.asked(condition.delta, layer, norms(state))
        try:
            moved = displace(
                state,
                arm=condition.arm,
                policy=policy,
                draw=draws[key],
                delta=torch.where(takes_part.to(state.device), asked, 0.0),
                antithetic=condition.sign or 1,
                reference=self.protocol.references.get(layer),
            )
        except TokenError as error:
            where = f"{self.lm.name}, block {layer}, item {batch.sequences[error.row].item}, token {error.token}"
            raise NumericalError(error.what, where=where, fix=error.fix) from error
        by_sequence = condition.arm == "angular" and policy.level("matching", "angular") == "mean"
        measured.record(moved, layer, first=layer == self.protocol.layers[0], by_sequence=by_sequence)
        return moved.state

    def _outcome(
        self,
        batch: Batch,
        nll: Tensor,
        kl: Tensor | None,
        chosen: np.ndarray,
        infeasible: np.ndarray,
        realised: Realised,
    ) -> Outcome:
        return Outcome(
            batch.sum_rows(nll).numpy(),
            None if kl is None else batch.sum_rows(kl).numpy(),
            chosen,
            infeasible,
            realised,
        )


def _draw_order(condition: Condition) -> tuple[Any, ...]:
    """Conditions that share a draw come together."""
    return (
        condition.policy_id,
        condition.seed,
        condition.arm,
        condition.positions,
        condition.delta,
        -(condition.sign or 0),
    )
