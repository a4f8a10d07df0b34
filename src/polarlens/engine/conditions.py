"""Conditions and what they ask of every token: who takes part, how far it moves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from polarlens.engine.batching import Batch
from polarlens.perturbation.planes import Reference
from polarlens.perturbation.policy import Arm, Policy

DeltaMode = Literal["absolute", "relative", "site"]
SINK_RATIO = 10.0


@dataclass(frozen=True)
class Condition:
    """One perturbation of one run: all that distinguishes two perturbed passes over the same item."""

    policy_id: str
    positions: str
    arm: Arm
    delta: float
    seed: int
    sign: int | None  # antithetic member: +1, -1, or None where the arm has none


@dataclass(frozen=True)
class Protocol:
    """What all conditions of a run share.

    layers: the perturbed blocks, ascending. policies: by id. medians: layer -> median clean norm over the run's
    items, only for `site`. references: layer -> clean states, only for planes that draw from them.
    """

    layers: tuple[int, ...]
    delta_mode: DeltaMode
    policies: Mapping[str, Policy]
    medians: Mapping[int, float] = field(default_factory=dict)
    references: Mapping[int, Reference] = field(default_factory=dict)

    def asked(self, delta: float, layer: int, norms: Tensor) -> Tensor:
        """Distance asked of tokens with these norms at this layer, same shape, in the model's units."""
        if self.delta_mode == "relative":
            return delta * norms
        scale = self.medians[layer] if self.delta_mode == "site" else 1.0
        return torch.full_like(norms, delta * scale)


def row_medians(norms: Tensor, batch: Batch) -> np.ndarray:
    """Median over each row's real tokens, an added BOS left out: (B,) float64."""
    counted = batch.mask.bool().clone()
    if batch.has_bos:
        counted[:, 0] = False
    values = np.where(counted.numpy(), norms.cpu().numpy(), np.nan)
    return np.nanmedian(values, axis=-1)


def sinks(norms: Mapping[int, Tensor], batch: Batch) -> Tensor:
    """(B, T) bool: norm above 10 times the row's own clean median at any perturbed layer."""
    found = torch.zeros(batch.shape, dtype=torch.bool)
    for at_layer in norms.values():
        limit = torch.from_numpy(SINK_RATIO * row_medians(at_layer, batch))[:, None]
        found |= at_layer.cpu().double() > limit
    return found & batch.mask.bool()


def eligible(batch: Batch, positions: str, norms: Mapping[int, Tensor]) -> Tensor:
    """(B, T) bool: the tokens that a `positions` rule selects; zero vectors never take part."""
    chosen = batch.perturbable.clone()
    for at_layer in norms.values():
        chosen &= at_layer.cpu() > 0
    if positions == "no-first":
        chosen[:, 0] = False
    elif positions == "no-sinks":
        chosen &= ~sinks(norms, batch)
    return chosen


def feasible(protocol: Protocol, delta: float, norms: Mapping[int, Tensor]) -> Tensor:
    """(B, T) bool: delta below the clean norm at every perturbed layer, whatever arm or sign is drawn."""
    verdicts = [protocol.asked(delta, layer, norms[layer]) < norms[layer] for layer in protocol.layers]
    return torch.stack(verdicts).all(dim=0).cpu()
