"""K conditions stacked on one batch: who takes part, the draws, and how the states of a layer are moved."""

from collections.abc import Sequence as Many
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from polarlens.engine.batching import Batch
from polarlens.engine.conditions import Condition, Protocol, eligible, feasible
from polarlens.engine.outcome import Clean, Realised
from polarlens.engine.stopwatch import Stopwatch
from polarlens.errors import NumericalError
from polarlens.perturbation import ARMS, coins, displace, gaussian, norms
from polarlens.perturbation.displace import TokenError
from polarlens.perturbation.policy import Arm, Policy

if TYPE_CHECKING:
    from polarlens.models import LanguageModel


class Stack:
    """Conditions as K copies of a batch. It can be run several times: every run has the same draws.

    conditions: of the K copies, in order. chosen, possible, part: per copy (B, T) bool, the tokens that `positions`
    selects, those that can be moved so far, and those that are moved. realised: what the last run measured, per copy.
    """

    def __init__(
        self,
        lm: "LanguageModel",
        protocol: Protocol,
        batch: Batch,
        clean: Clean,
        conditions: Many[Condition],
        watch: Stopwatch,
    ) -> None:
        self.conditions = tuple(conditions)
        self._lm, self._protocol, self._batch, self._watch = lm, protocol, batch, watch
        self.chosen = [eligible(batch, c.positions, clean.norms) for c in conditions]
        self.possible = [feasible(protocol, c.delta, clean.norms) for c in conditions]
        apply = [protocol.policies[c.policy_id].level("infeasible", c.arm) == "apply" for c in conditions]
        self.part = [e if a else e & f for e, f, a in zip(self.chosen, self.possible, apply, strict=True)]
        self._draws: dict[tuple[object, ...], Tensor] = {}
        self.restart()

    def restart(self) -> None:
        """Forget what was measured."""
        self.realised = [Realised.nothing(self._batch.shape) for _ in self.conditions]

    def edit(self, hidden: Tensor, layer: int) -> Tensor:
        """The states (K·B, T, d) that `layer` returns, each copy displaced by its condition."""
        with self._watch.stage("perturb", "draw"):
            return torch.cat(
                [
                    self._displace(copy, state, layer)
                    for copy, state in enumerate(torch.split(hidden, self._batch.shape[0]))
                ]
            )

    def _displace(self, copy: int, state: Tensor, layer: int) -> Tensor:
        condition, protocol = self.conditions[copy], self._protocol
        policy = protocol.policies[condition.policy_id]
        key = (condition.policy_id, condition.arm, condition.seed, layer)
        if key not in self._draws:
            with self._watch.stage("draw"):
                drawn = draw(policy, condition.arm, condition.seed, layer, self._batch, self._lm.width)
                self._draws[key] = drawn.to(state.device)
        asked = protocol.asked(condition.delta, layer, norms(state))
        try:
            moved = displace(
                state,
                arm=condition.arm,
                policy=policy,
                draw=self._draws[key],
                delta=torch.where(self.part[copy].to(state.device), asked, 0.0),
                antithetic=condition.sign or 1,
                reference=protocol.references.get(layer),
            )
        except TokenError as error:
            item = self._batch.sequences[error.row].item
            where = f"{self._lm.name}, block {layer}, item {item}, token {error.token}"
            raise NumericalError(error.what, where=where, fix=error.fix) from error
        by_sequence = condition.arm == "angular" and policy.level("matching", "angular") == "mean"
        first = layer == protocol.layers[0]
        self.realised[copy].record(moved, layer, first=first, by_sequence=by_sequence)
        return moved.state


def draw(policy: Policy, arm: Arm, seed: int, layer: int, batch: Batch, width: int) -> Tensor:
    """The noise of a batch at one layer: (B, T) coins or (B, T, width) Gaussians."""
    length = batch.shape[1]
    if arm == "magnitude":
        return torch.from_numpy(coins(policy, arm, seed, layer, batch.sequences, length=length))
    return torch.from_numpy(gaussian(policy, arm, seed, layer, batch.sequences, width, length=length))


def unmoved(hidden: Tensor, layer: int, protocol: Protocol, batch: Batch) -> Tensor:
    """The states (B, T, d) after the code of both arms with a distance of 0 asked: the control."""
    policy = next(iter(protocol.policies.values()))
    nothing = torch.zeros(batch.shape, dtype=torch.float64, device=hidden.device)
    for arm in ARMS:
        noise = draw(policy, arm, 0, layer, batch, hidden.shape[-1]).to(hidden.device)
        reference = protocol.references.get(layer)
        hidden = displace(hidden, arm=arm, policy=policy, draw=noise, delta=nothing, reference=reference).state
    return hidden


def draw_order(condition: Condition) -> tuple[Any, ...]:
    """A sort key: conditions that share a draw come together."""
    return (
        condition.policy_id,
        condition.seed,
        condition.arm,
        condition.positions,
        condition.delta,
        -(condition.sign or 0),
    )
