"""Reproducible choices: each sentence, pair or passage has a stream of its own, named by text.

Only `random.Random(int)` and its `random()` are used: their sequence is the same in every Python version, while the
algorithms behind `choice` and `shuffle` are not promised. The name is hashed with SHA-256, never with `hash()`.
"""

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A stream of choices that depends on `name` alone."""

    def __init__(self, *name: object) -> None:
        digest = hashlib.sha256("/".join(map(str, name)).encode()).digest()
        self._random = random.Random(int.from_bytes(digest[:16], "big"))

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self._random.random() < probability

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[int(self._random.random() * len(options))]

    def weighted(self, options: Sequence[tuple[float, T]]) -> T:
        """One of the options of (weight, value), in proportion to the weights."""
        point = self._random.random() * sum(weight for weight, _ in options)
        for weight, value in options:
            point -= weight
            if point < 0:
                return value
        return options[-1][1]

    def number(self, plural: float = 0.5) -> str:
        """`Sing` or `Plur`, as in the UD feature Number."""
        return "Plur" if self.chance(plural) else "Sing"
