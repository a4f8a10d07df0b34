"""C3 to C7: claims judged by contrasts that other experiments hand in (repair, propagation, probing)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from polarlens.statistics.intervals import Estimate, Interval, as_list, inside
from polarlens.statistics.multiplicity import bonferroni_level
from polarlens.statistics.order import order_status, reference_delta
from polarlens.statistics.published import PAPER_LAYERS, Claim, in_the_published_setting


@dataclass(frozen=True)
class Given:
    """One comparison, in the orientation of `contrasts`.

    estimate: recovery(angular) - recovery(magnitude) for C3 (attention) and C4 (norm), the log of the ratio of
    amplifications angular/magnitude for C5, score(direction) - score(norm) in points for C6, the gain in R² for C7.
    delta, layers: of the perturbation (C3 to C5). block: the probed one (C6, C7). usable: whether it may decide.
    interval: shown as the 95 % interval in place of the estimate's own (a bootstrap; C6, C7).
    """

    estimate: Estimate
    delta: float | None = None
    layers: str | None = None
    block: int | None = None
    usable: bool = True
    interval: Interval | None = None


def given_entry(
    claim: Claim, given: Sequence[Given], *, model: str, preset: str, delta_mode: str | None, n_layers: int | None
) -> dict[str, object]:
    """The status, number and reason of a claim from what was handed in.

    Signs are tested after Holm over the usable deltas, layers and blocks, equivalence at Bonferroni's level. The number
    is that of the reference delta, or of block floor(n_layers / 2).
    """
    if not given:
        return {"why": claim.needs}
    usable = [one for one in given if one.usable]
    status, why = "inconclusive", "no comparison is usable"
    if usable:
        level = bonferroni_level(0.95, len(usable))
        estimates = [_oriented(one.estimate, claim) for one in usable]
        low, high = claim.band or (0.0, 0.0)
        in_band = [inside(_shown_interval(e, claim, level), low, high) for e in estimates]
        status, why = order_status(estimates, in_band, [_place(one) for one in usable])
    shown = _shown(usable or given, delta_mode, n_layers)
    estimate = _oriented(shown.estimate, claim)
    published = in_the_published_setting(model, preset, delta_mode) and (
        claim.delta is None or (shown.delta == claim.delta and shown.layers == PAPER_LAYERS)
    )
    at99 = _shown_interval(estimate, claim, 0.99)
    agrees = at99[0] <= claim.paper <= at99[1] if published and claim.paper is not None and at99 else None
    reasons = [why, estimate.why or "", f"measured at {_place(shown)}"]
    return {
        "measured": _shown_value(estimate, claim),
        "ci95": as_list(shown.interval or _shown_interval(estimate, claim, 0.95)),
        "status": status,
        "size_agrees": agrees,
        "delta": shown.delta,
        "why": "; ".join(dict.fromkeys(reason for reason in reasons if reason)),
    }


def _oriented(estimate: Estimate, claim: Claim) -> Estimate:
    """The estimate with the published order as its positive sign."""
    return estimate if claim.sign > 0 or estimate.value is None else replace(estimate, value=-estimate.value)


def _shown_value(estimate: Estimate, claim: Claim) -> float | None:
    if estimate.value is None or not claim.logarithmic:
        return estimate.value
    return math.exp(estimate.value)


def _shown_interval(estimate: Estimate, claim: Claim, level: float) -> Interval | None:
    interval = estimate.interval(level)
    if interval is None or not claim.logarithmic:
        return interval
    return math.exp(interval[0]), math.exp(interval[1])


def _shown(given: Sequence[Given], delta_mode: str | None, n_layers: int | None) -> Given:
    """The comparison whose number stands in the summary."""
    deltas = [one.delta for one in given if one.delta is not None]
    if deltas:
        delta = reference_delta(deltas, delta_mode)
        given = [one for one in given if one.delta == delta]
    blocks = sorted(one.block for one in given if one.block is not None)
    if blocks:
        wanted = blocks[len(blocks) // 2] if n_layers is None else n_layers // 2
        return min(given, key=lambda one: math.inf if one.block is None else abs(one.block - wanted))
    return given[len(given) // 2]


def _place(one: Given) -> str:
    named = [f"delta {one.delta:g}"] if one.delta is not None else []
    named += [f"layers {one.layers}"] if one.layers is not None else []
    named += [f"block {one.block}"] if one.block is not None else []
    return " ".join(named) or "the only one made"
