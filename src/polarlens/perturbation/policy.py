"""The noise policy: which draws are shared, how v is drawn, which tokens take part. Data only; presets by name.

A policy is explicit and stored with every result. A factor has one level for both arms, or one level per arm where the
protocol differs between the arms on purpose (the published notebook does).
"""

from dataclasses import asdict, dataclass, replace
from typing import Literal, Self

from polarlens.errors import UsageError

Arm = Literal["magnitude", "angular"]
ARMS: tuple[Arm, ...] = ("magnitude", "angular")

LEVELS: dict[str, tuple[str, ...]] = {
    "across_layers": ("fresh", "shared"),
    "across_items": ("fresh", "by-length"),
    "across_members": ("common", "independent"),
    "antithetic": ("on", "off"),
    "sign": ("random", "grow", "shrink"),
    "matching": ("token", "mean"),
    "plane": ("orthogonal", "covariance", "data", "centred", "additive"),
    "infeasible": ("skip", "apply"),
}
POSITIONS = ("all", "no-first", "no-sinks")


@dataclass(frozen=True)
class PerArm:
    """One level for each arm."""

    magnitude: str
    angular: str


Level = str | PerArm


@dataclass(frozen=True)
class Policy:
    """Levels of the factors that decide a draw and how it is applied.

    across_layers: `fresh` draws per perturbed layer, or one `shared` draw (adds up coherently).
    across_items: `fresh` per item, or `by-length`: the key holds the number of real tokens instead of the item.
    across_members: of a minimal pair: `common` noise at aligned positions, or `independent` noise.
    antithetic: `on` runs every draw with both signs, so that the first-order term cancels.
    sign: of the magnitude arm: `random` fair coins, or all tokens `grow` or `shrink`.
    matching: `token`, every token moves by its own delta; `mean`: the rotation has one scale per sequence so that the
        average distance is delta (the magnitude arm always matches token by token).
    plane: how v is drawn before u is projected out.
    infeasible: `skip` leaves tokens with delta >= norm clean in both arms; `apply` perturbs them all the same.
    """

    across_layers: Level = "fresh"
    across_items: Level = "fresh"
    across_members: Level = "common"
    antithetic: Level = "on"
    sign: Level = "random"
    matching: Level = "token"
    plane: Level = "orthogonal"
    infeasible: Level = "skip"

    def __post_init__(self) -> None:
        for factor, levels in LEVELS.items():
            level = getattr(self, factor)
            for given in (level.magnitude, level.angular) if isinstance(level, PerArm) else (level,):
                if given not in levels:
                    raise UsageError(
                        f"{given!r} is not a level of the factor {factor}", fix=f"Choose one of {', '.join(levels)}."
                    )

    def level(self, factor: str, arm: Arm) -> str:
        """The level of `factor` in `arm`."""
        level: Level = getattr(self, factor)
        return getattr(level, arm) if isinstance(level, PerArm) else level

    def draw_signs(self, arm: Arm) -> tuple[int | None, ...]:
        """The antithetic members to run: (+1, -1), or (None,) where the arm has no antithetic member.

        With `grow` or `shrink` the magnitude arm has none: flipping the signs would undo the level.
        """
        if self.level("antithetic", arm) == "off" or (arm == "magnitude" and self.level("sign", arm) != "random"):
            return (None,)
        return (1, -1)

    def with_levels(self, **levels: Level) -> Self:
        """A copy with other levels."""
        return replace(self, **levels)

    def as_dict(self) -> dict[str, str | dict[str, str]]:
        """Plain data for `summary.json` and the manifest: factor -> level, or factor -> {arm: level}."""
        return asdict(self)


MATCHED = Policy()
PAPER = Policy(across_members="independent", antithetic="off")
NOTEBOOK = Policy(
    across_layers=PerArm("fresh", "shared"),
    across_items=PerArm("fresh", "by-length"),
    across_members=PerArm("independent", "common"),
    antithetic="off",
    matching=PerArm("token", "mean"),
    plane="additive",
    infeasible="apply",
)
