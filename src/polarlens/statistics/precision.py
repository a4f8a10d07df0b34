"""How many items a wanted precision takes: when to stop, and the item and draw variances that decide it.

Stopping: items come in rounds that double (60, 120, 240, ... up to a cap); after each the relative half-width of the
loss ratio R = D_angular / D_magnitude is compared with the one wanted. All conditions of one delta stop together, at
the first round in which all their ratios are precise enough. Looking again and again costs next to nothing: simulated
with skewed items, the 95 % interval at the stop covers 94.4 % or more whatever the width wanted.

Variances: with y_ij the damages of item i in draw j, the influence psi_ij = (A_ij - R M_ij) / mean M on the ratio has a
variance `item` between items and `draw` between the draws of one item, so that I items with J draws each give

    var R = (item + draw / J) / I,      I (1 + p J) forward passes for p passes per draw (both arms, their members).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtri

from polarlens.errors import UsageError
from polarlens.statistics.contrasts import comparisons
from polarlens.statistics.damage import damages
from polarlens.statistics.estimates import Policies
from polarlens.statistics.intervals import Array, Moments
from polarlens.statistics.ratio import ratio, ratio_interval

FIRST_ROUND = 60


@dataclass(frozen=True)
class Look:
    """What a round says about one delta.

    n_items: items in it. half_width: the largest half-width of R relative to R over the delta's conditions, None while
    one of them is undefined. next_items: how many items the next round has, None when this one is the last. why: in
    words.
    """

    n_items: int
    half_width: float | None
    next_items: int | None
    why: str

    @property
    def stop(self) -> bool:
        """Whether the delta is done."""
        return self.next_items is None


def rounds(cap: int, first: int = FIRST_ROUND) -> list[int]:
    """Items in each round: `first`, doubling, the last one with all of `cap`."""
    if cap < 1:
        raise UsageError(f"{cap} items make no round", where="cap", fix="Give at least one item.")
    sizes = [min(first, cap)]
    while sizes[-1] < cap:
        sizes.append(min(2 * sizes[-1], cap))
    return sizes


def relative_half_width(m: Moments) -> tuple[float | None, str | None]:
    """(half-width of the 95 % interval of R) / R, or (None, why) where R or its interval is undefined."""
    value, why = ratio(m)
    if value is None:
        return None, why
    interval, why = ratio_interval(m)
    if interval is None:
        return None, why
    if not value > 0:
        return None, "the ratio is not above 0"
    return (interval[1] - interval[0]) / 2.0 / value, None


def look(conditions: Sequence[Moments], n_items: int, width: float, cap: int) -> Look:
    """Stop or go on with one delta, from the moments (angular, magnitude) of each of its conditions so far.

    n_items: items run so far. width: the relative half-width wanted, above 0. cap: all items there are. Raises
    UsageError for a width that is not above 0 and when there is no condition.
    """
    if not (width > 0 and math.isfinite(width)):
        raise UsageError(f"{width:g} is no width", where="--ci-width", fix="Give a number above 0, such as 0.1.")
    if not conditions:
        raise UsageError("the loss ratio was not measured", where="--ci-width", fix="Give texts, and run both arms.")
    found = [relative_half_width(m) for m in conditions]
    undefined = next((why for half, why in found if half is None), None)
    half = None if undefined else max(half for half, _ in found if half is not None)
    if half is not None and half <= width and n_items >= min(FIRST_ROUND, cap):
        return Look(n_items, half, None, f"the half-width is {half:.1%} of the ratio, {width:.1%} was wanted")
    state = f"R is undefined ({undefined})" if half is None else f"the half-width is {half:.1%} of the ratio"
    if n_items >= cap:
        return Look(n_items, half, None, f"all {cap} items are used; {state}, {width:.1%} was wanted")
    after = next(size for size in rounds(cap) if size > n_items)
    return Look(n_items, half, after, f"{state}, {width:.1%} is wanted")


def look_at_rows(
    rows: pd.DataFrame,
    delta: float,
    width: float,
    n_items: int,
    cap: int,
    policies: Policies,
    loss_measure: str = "nll",
) -> Look:
    """`look` from the sweep's rows so far: clean rows and the perturbed ones of `delta` (others are left out).

    The conditions of a delta are its policies, positions and sets of layers.
    """
    measured = damages(rows[(rows["task"] == "loss") & ((rows["arm"] == "clean") | (rows["delta"] == delta))])
    compared = [one for one in comparisons(measured, policies, {}) if one.measure == loss_measure]
    return look([one.moments for one in compared], n_items, width, cap)


@dataclass(frozen=True)
class Components:
    """Variances of an item's influence on the ratio, in units of the ratio squared.

    item: between items. draw: between the draws of one item. passes: forward passes per draw, both arms together.
    """

    ratio: float
    item: float
    draw: float
    passes: int

    def variance(self, items: int, draws: int) -> float:
        """Variance of the ratio measured with so many items and draws."""
        return (self.item + self.draw / draws) / items


@dataclass(frozen=True)
class Design:
    """A study that reaches the precision wanted: items, draws per item, forward passes (one clean pass per item)."""

    items: int
    draws: int
    passes: int


def components(members: npt.ArrayLike) -> tuple[Components, Components]:
    """(plain, antithetic) components from antithetic members: (2, I, J, 2) damages, arms angular then magnitude.

    Either member alone is a plain draw. An antithetic draw is the mean of both: the part that is odd in the draw
    cancels. It has mean zero over draws, so plain draws have the antithetic variance plus its mean square. Raises
    UsageError unless there are two items and draws or more and the magnitude damage is above 0.
    """
    y = np.asarray(members, dtype=np.float64)
    if y.ndim != 4 or y.shape[0] != 2 or y.shape[3] != 2 or min(y.shape[1:3]) < 2:
        raise UsageError(f"draws of shape {y.shape} have no variances", fix="Give two or more items and seeds.")
    angular, magnitude = y.mean(axis=(1, 2, 3))
    if not magnitude > 0:
        raise UsageError("the magnitude damage is not above 0: there is no ratio", fix="Give more items or draws.")
    value = float(angular / magnitude)
    psi = (y[0] - value * y[1]) / magnitude
    even, odd = psi.mean(axis=2), (psi[..., 0] - psi[..., 1]) / 2.0
    draw = float(even.var(axis=1, ddof=1).mean())
    item = max(0.0, float(even.mean(axis=1).var(ddof=1)) - draw / even.shape[1])
    plain = Components(value, item, draw + float(np.square(odd).mean()), passes=2)
    return plain, Components(value, item, draw, passes=4)


def design(c: Components, half_width: float = 0.1, draws: int | None = None, level: float = 0.95) -> Design:
    """The cheapest study whose interval of R has this half-width relative to R; `draws` per item, if given, are kept.

    The best number of draws is sqrt(draw / (item · passes per draw)): an item costs its clean pass too. Raises
    UsageError for a half-width or ratio that is not above 0.
    """
    if not (half_width > 0 and c.ratio > 0):
        raise UsageError(f"no study has a half-width of {half_width:g} of a ratio of {c.ratio:g}")
    allowed: Array = np.array([draws] if draws else [1])
    if draws is None and c.draw > 0:
        best = math.sqrt(c.draw / (max(c.item, 1e-12 * c.draw) * c.passes))
        allowed = np.unique(np.maximum(1, [math.floor(best), math.ceil(best)]))
    target = (half_width * c.ratio / float(ndtri(0.5 + level / 2.0))) ** 2
    found = [(max(2, math.ceil((c.item + c.draw / j) / target)), int(j)) for j in allowed]
    return min((Design(i, j, i * (1 + c.passes * j)) for i, j in found), key=lambda d: d.passes)
