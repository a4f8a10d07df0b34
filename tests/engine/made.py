"""Items, conditions and engines for tests of the engine."""

import random

import numpy as np
import torch

from polarlens.data.items import Pair, Text
from polarlens.engine.conditions import Condition, Protocol
from polarlens.engine.encoding import Encoded
from polarlens.engine.engine import Engine
from polarlens.models import LanguageModel
from polarlens.perturbation import MATCHED, Sequence, align

WIDTH, LAYERS = 32, 3


def encoded_text(name: str, ids: tuple[int, ...]) -> Encoded:
    text = Text(name, name, name, "made", 1)
    noise = Sequence(item=name, member=None, n_tokens=len(ids), slots=None)
    return Encoded(text, (ids,), (noise,), (np.ones(len(ids), dtype=bool),))


def encoded_pair(name: str, good: tuple[int, ...], bad: tuple[int, ...]) -> Encoded:
    slots = align(good, bad)
    noise = tuple(Sequence(name, m, len(ids), slots[m]) for m, ids in enumerate((good, bad)))
    pair = Pair("g", "b", name, name, "made", 1)
    return Encoded(pair, (good, bad), noise, tuple(np.ones(len(ids), dtype=bool) for ids in (good, bad)))


def random_ids(n: int, seed: int) -> tuple[int, ...]:
    return tuple(random.Random(seed).randrange(2, 250) for _ in range(n))


TEXTS = [encoded_text(f"item{k}", (0, *random_ids(n, k))) for k, n in enumerate((9, 4, 12, 1))]
PAIRS = [
    encoded_pair("pair0", (0, 5, 6, 7, 8), (0, 5, 9, 7, 8)),
    encoded_pair("pair1", (0, 11, 12, 13, 14, 15), (0, 11, 44, 45, 46, 14, 15)),
]


def condition(arm, delta, *, policy="p", seed=0, sign=1, positions="all"):
    return Condition(policy, positions, arm, delta, seed, sign)


def engine_of(lm: LanguageModel, layers, *, policy=MATCHED, kl=False) -> Engine:
    return Engine(lm, Protocol(tuple(layers), "relative", {"p": policy}), kl=kl)


def state_of(lm: LanguageModel):
    """All that a run must leave as it found it."""
    return (
        lm.hf.training,
        lm.hf.config._attn_implementation,
        [
            (n, len(m._forward_hooks), len(m._forward_pre_hooks), "forward" in m.__dict__)
            for n, m in lm.hf.named_modules()
        ],
        torch.get_rng_state().tolist(),
        random.getstate(),
        str(np.random.get_state()),  # noqa: NPY002 - the legacy global state is what must be untouched
    )
