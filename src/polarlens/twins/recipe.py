"""Everything that decides the trained weights, as data."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal

Norm = Literal["layernorm", "rmsnorm"]
NORMS: tuple[Norm, Norm] = ("layernorm", "rmsnorm")

# Generator seeds: training text never comes from the seeds of what is bundled or evaluated.
TRAINING_SEED, BUNDLED_SEED, HELD_OUT_SEED, SPARE_SEED = 1_000, 1, 2, 3


def name_of(norm: Norm) -> str:
    """The name that users give: twin-layernorm, twin-rmsnorm."""
    return f"twin-{norm}"


@dataclass(frozen=True)
class Recipe:
    """One training run of both twins.

    steps: optimiser steps. batch: rows of a step. length: tokens of a row, BOS included.
    generated: share of the rows that hold generated English. threads: of each model's own process.
    The learning rate rises over the first `warmup` of the steps and falls linearly to 0.
    """

    steps: int
    seed: int = 0
    batch: int = 16
    length: int = 128
    generated: float = 0.3
    learning_rate: float = 3e-3
    warmup: float = 0.03
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.1
    clip: float = 1.0
    threads: int = 1
    vocabulary: int = 4096
    width: int = 192
    mlp_width: int = 512
    n_layers: int = 8
    n_heads: int = 6
    norm_eps: float = 1e-5

    @property
    def digest(self) -> str:
        """SHA-256 over all settings, 16 hex digits."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]
