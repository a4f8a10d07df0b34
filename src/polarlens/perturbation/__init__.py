"""Moving the length or the direction of hidden states by a controlled distance, with noise that is data."""

from polarlens.perturbation.displace import Displacement, displace, perturb
from polarlens.perturbation.geometry import (
    angular,
    distance,
    feasible,
    magnitude,
    norm_change,
    norms,
    tangent,
    working_dtype,
)
from polarlens.perturbation.noise import Sequence, Stream, align, coins, gaussian
from polarlens.perturbation.planes import Reference, reference
from polarlens.perturbation.policy import (
    ARMS,
    LEVELS,
    MATCHED,
    NOTEBOOK,
    PAPER,
    POSITIONS,
    Arm,
    Level,
    PerArm,
    Policy,
)

__all__ = [
    "ARMS",
    "LEVELS",
    "MATCHED",
    "NOTEBOOK",
    "PAPER",
    "POSITIONS",
    "Arm",
    "Displacement",
    "Level",
    "PerArm",
    "Policy",
    "Reference",
    "Sequence",
    "Stream",
    "align",
    "angular",
    "coins",
    "displace",
    "distance",
    "feasible",
    "gaussian",
    "magnitude",
    "norm_change",
    "norms",
    "perturb",
    "reference",
    "tangent",
    "working_dtype",
]
