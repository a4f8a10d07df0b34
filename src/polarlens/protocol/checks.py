"""Whether the arms moved as far as they were asked to."""

from collections import defaultdict

import numpy as np

from polarlens.engine.conditions import Condition, Protocol
from polarlens.engine.outcome import Realised
from polarlens.errors import NumericalError
from polarlens.perturbation.policy import ARMS, Arm

TOLERANCE = 0.01


class Distances:
    """Realised and asked distances of a unit, summed over tokens per (arm, delta, layer)."""

    def __init__(self) -> None:
        self._totals: dict[tuple[Arm, float, int], np.ndarray] = defaultdict(lambda: np.zeros(2))

    def add(self, condition: Condition, realised: Realised) -> None:
        """Count one pass."""
        for layer, sums in realised.by_layer.items():
            self._totals[condition.arm, condition.delta, layer] += sums

    def check(self, protocol: Protocol, *, allow_mismatch: bool) -> None:
        """Per (layer, arm, delta) the mean distance must be within 1 % of the mean asked, and of the other arm's.

        Raises NumericalError naming the layer and arm, unless `allow_mismatch`.
        """
        if allow_mismatch:
            return
        for (arm, delta, layer), (got, asked) in self._totals.items():
            if asked > 0 and abs(got / asked - 1) > TOLERANCE:
                raise _mismatch(f"the {arm} arm moved tokens by {100 * (got / asked - 1):+.2f} % against", delta, layer)
        for delta in {delta for _, delta, _ in self._totals}:
            first = protocol.layers[0]
            pair = [self._totals[arm, delta, first] for arm in ARMS if (arm, delta, first) in self._totals]
            means = [got / asked for got, asked in pair if asked > 0]
            if len(means) == len(ARMS) and abs(means[0] / means[1] - 1) > TOLERANCE:
                off = 100 * (means[0] / means[1] - 1)
                raise _mismatch(f"the arms' distances differ by {off:+.2f} % at", delta, first)


def _mismatch(what: str, delta: float, layer: int) -> NumericalError:
    fix = "Use --dtype float32, a larger delta, or --allow-mismatch to measure it all the same."
    return NumericalError(f"{what} delta {delta:g} asked", where=f"block {layer}", fix=fix)
