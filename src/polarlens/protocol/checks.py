"""Whether the arms moved as far as they were asked to."""

from collections import defaultdict

import numpy as np

from polarlens.engine.conditions import Condition, Protocol
from polarlens.engine.outcome import Realised
from polarlens.errors import NumericalError
from polarlens.perturbation.policy import ARMS, Arm

TOLERANCE = 0.01


class Distances:
    """Realised and asked distances of a unit, summed over tokens per (policy, arm, delta, layer)."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, Arm, float, int], np.ndarray] = defaultdict(lambda: np.zeros(2))

    def add(self, condition: Condition, realised: Realised) -> None:
        """Count one pass."""
        for layer, sums in realised.by_layer.items():
            self._totals[condition.policy_id, condition.arm, condition.delta, layer] += sums

    def check(self, protocol: Protocol, *, allow_mismatch: bool) -> None:
        """Per (policy, layer, arm, delta) the mean distance must be within 1 % of that asked, and of the other arm's.

        Under `apply` tokens may be asked to go where they cannot: such distances are counted, never checked. Raises
        NumericalError naming the layer and arm, unless `allow_mismatch`.
        """
        if allow_mismatch:
            return
        first: dict[tuple[str, float], dict[Arm, float]] = defaultdict(dict)
        for (policy_id, arm, delta, layer), (got, asked) in self._totals.items():
            if not asked > 0 or protocol.policies[policy_id].level("infeasible", arm) == "apply":
                continue
            if abs(got / asked - 1) > TOLERANCE:
                off = f"the {arm} arm moved tokens by {100 * (got / asked - 1):+.2f} % against"
                raise _mismatch(off, delta, layer, policy_id)
            if layer == protocol.layers[0]:
                first[policy_id, delta][arm] = got / asked
        for (policy_id, delta), means in first.items():
            if len(means) == len(ARMS) and abs(means["magnitude"] / means["angular"] - 1) > TOLERANCE:
                off = f"the arms' distances differ by {100 * (means['magnitude'] / means['angular'] - 1):+.2f} % at"
                raise _mismatch(off, delta, protocol.layers[0], policy_id)


def _mismatch(what: str, delta: float, layer: int, policy_id: str) -> NumericalError:
    fix = "Use --dtype float32, a larger delta, or --allow-mismatch to measure it all the same."
    return NumericalError(f"{what} delta {delta:g} asked", where=f"block {layer}, policy {policy_id}", fix=fix)
