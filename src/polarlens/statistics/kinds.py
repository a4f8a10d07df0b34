"""What the two tasks say together at each delta: the kinds of a verdict, as tests on the arms' moments.

With d_loss = D_angular - D_magnitude and d_acc = drop_magnitude - drop_angular, in this order of precedence:

crossed      both above 0                    reversed  both below 0
same_arm     one arm worse on both tasks: (d_loss > 0, d_acc < 0) angular, (d_loss < 0, d_acc > 0) magnitude
none         both sides lie in their bands
loss_only    d_loss differs from 0, the simultaneous interval of d_acc lies in its band
syntax_only  d_acc differs from 0, the loss side lies in its band
inconclusive otherwise

`none` stands before the one-sided kinds: a side that is shown to be negligible is not "only" harmed, even where precise
data tell it from 0 (simulated with equal arms and precise data, this gives `none` in 99 % of studies instead of 91 %).

A kind on two tasks has the larger of its two one-sided p-values (intersection-union). Each kind is tested at 0.025
after Holm over the family of deltas (times blocks).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polarlens.statistics.intervals import Estimate, Moments, inside
from polarlens.statistics.multiplicity import bonferroni_level, holm

ALPHA = 0.025


@dataclass(frozen=True)
class Bands:
    """What counts as equal: `points` of accuracy either way, damages within a factor of `loss_ratio` either way."""

    points: float = 2.0
    loss_ratio: float = 0.9


DEFAULT_BANDS = Bands()


@dataclass(frozen=True)
class Sides:
    """Both tasks under one condition; moments in the order angular, magnitude."""

    loss: Moments
    accuracy: Moments

    @property
    def d_loss(self) -> Estimate:
        """D_angular - D_magnitude, nats."""
        return self.loss.linear(1.0, -1.0)

    @property
    def d_acc(self) -> Estimate:
        """drop_magnitude - drop_angular, points."""
        return self.accuracy.linear(-1.0, 1.0)


@dataclass(frozen=True)
class DeltaKind:
    """The kind at one delta, its Holm-adjusted p (None where no test decided) and, for `same_arm`, the worse arm."""

    kind: str
    p_holm: float | None = None
    arm: str | None = None


def classify(family: Sequence[Sides], bands: Bands) -> list[DeltaKind]:
    """The kind of each member of a family of usable deltas (times blocks)."""
    loss, accuracy = [sides.d_loss for sides in family], [sides.d_acc for sides in family]
    above, below = Estimate.p_above, Estimate.p_below
    tests: list[tuple[str, str | None, list[float]]] = [
        ("crossed", None, _jointly(loss, above, accuracy, above)),
        ("reversed", None, _jointly(loss, below, accuracy, below)),
        ("same_arm", "angular", _jointly(loss, above, accuracy, below)),
        ("same_arm", "magnitude", _jointly(loss, below, accuracy, above)),
    ]
    one_sided = {
        "loss_only": [_adjusted(loss, above), _adjusted(loss, below)],
        "syntax_only": [_adjusted(accuracy, above), _adjusted(accuracy, below)],
    }
    level = bonferroni_level(0.95, len(family))
    out = []
    for index, sides in enumerate(family):
        found = next((DeltaKind(kind, p[index], arm) for kind, arm, p in tests if p[index] <= ALPHA), None)
        if found is None:
            equal = {
                "loss_only": inside(accuracy[index].interval(level), -bands.points, bands.points),
                "syntax_only": losses_equal(sides.loss, level, bands.loss_ratio),
            }
            best = {kind: min(p[index] for p in family_p) for kind, family_p in one_sided.items()}
            only = next((DeltaKind(kind, p) for kind, p in best.items() if p <= ALPHA and equal[kind]), None)
            found = DeltaKind("none") if all(equal.values()) else only or DeltaKind("inconclusive")
        out.append(found)
    return out


def losses_equal(loss: Moments, level: float, ratio: float) -> bool:
    """Whether both damages lie within a factor of `ratio` of each other.

    Both linear contrasts ratio * D_angular - D_magnitude and ratio * D_magnitude - D_angular have upper limits below 0;
    undecided, so False, where neither damage's interval lies above 0.
    """
    if not any(_above_zero(loss.linear(*arm), level) for arm in ((1.0, 0.0), (0.0, 1.0))):
        return False
    limits = [loss.linear(*c).interval(level) for c in ((ratio, -1.0), (-1.0, ratio))]
    return all(limit is not None and limit[1] < 0 for limit in limits)


def overall(kinds: Sequence[str]) -> str:
    """The kind of several deltas, or of several blocks, together.

    The one kind other than `inconclusive` that was found; `none` counts only where all say it; `mixed` when several
    were found; `uninformative` when there is nothing to look at.
    """
    judged = [kind for kind in kinds if kind != "uninformative"]
    if not judged:
        return "uninformative"
    if set(judged) == {"none"}:
        return "none"
    found = set(judged) - {"inconclusive", "none"}
    return "inconclusive" if not found else found.pop() if len(found) == 1 else "mixed"


Tail = Callable[[Estimate], float | None]


def _tail(estimates: Sequence[Estimate], tail: Tail) -> list[float]:
    """One-sided p-values; a test that cannot be made never rejects."""
    return [1.0 if (p := tail(estimate)) is None else p for estimate in estimates]


def _jointly(one: Sequence[Estimate], tail: Tail, other: Sequence[Estimate], other_tail: Tail) -> list[float]:
    pairs = zip(_tail(one, tail), _tail(other, other_tail), strict=True)
    return [p or 0.0 for p in holm([max(pair) for pair in pairs])]


def _adjusted(estimates: Sequence[Estimate], tail: Tail) -> list[float]:
    return [p or 0.0 for p in holm(_tail(estimates, tail))]


def _above_zero(estimate: Estimate, level: float) -> bool:
    interval = estimate.interval(level)
    return interval is not None and interval[0] > 0
