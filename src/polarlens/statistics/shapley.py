"""The damage that repairing attention and MLP brings back, split between the two by Shapley's rule.

With R(s) the damage recovered when the paths s are held clean (R(a) = D - D_attention and so on),

    phi_attention = (R(a) + R(am) - R(m)) / 2        phi_mlp = (R(m) + R(am) - R(a)) / 2
    interaction   = R(am) - R(a) - R(m)              out of reach = D - R(am)

all of them linear in the four damages, with intervals like any mean. The shares phi / R(am) are ratios with Fieller's
interval; they may lie outside 0 to 1. Source of the rule: Shapley (1953), "A value for n-person games".
"""

from collections.abc import Mapping
from dataclasses import dataclass

from polarlens.statistics.intervals import Estimate, Moments
from polarlens.statistics.recovery import Share, share

# Coefficients of (D, D_attention, D_mlp, D_attention+mlp).
PHI: Mapping[str, tuple[float, float, float, float]] = {
    "attention": (0.5, -0.5, 0.5, -0.5),
    "mlp": (0.5, 0.5, -0.5, -0.5),
}
RECOVERED = (1.0, 0.0, 0.0, -1.0)
INTERACTION = (-1.0, 1.0, 1.0, -1.0)
OUT_OF_REACH = (0.0, 0.0, 0.0, 1.0)
NOTHING = "what the two recover together is not clearly above 0"


@dataclass(frozen=True)
class Split:
    """In the unit of the damages: phi by path, interaction, recovered by both, out_of_reach. share: of recovered."""

    phi: Mapping[str, Estimate]
    interaction: Estimate
    recovered: Estimate
    out_of_reach: Estimate
    share: Mapping[str, Share]


def split(m: Moments) -> Split:
    """The split of one arm; m: moments of the damages (unrepaired, attention, mlp, attention+mlp held clean)."""
    return Split(
        phi={path: m.linear(*row) for path, row in PHI.items()},
        interaction=m.linear(*INTERACTION),
        recovered=m.linear(*RECOVERED),
        out_of_reach=m.linear(*OUT_OF_REACH),
        share={path: share(m.combined(row, RECOVERED), NOTHING) for path, row in PHI.items()},
    )
