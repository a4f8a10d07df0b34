"""The published claims (arXiv 2602.11169) as data, and what a sweep says about those it can test.

Status tests order, not size: `replicates` when the stated sign holds at one delta or more and the opposite at none,
`contradicts` when the opposite holds at one or more and the stated sign at none, or when every interval lies in the
band of equivalence; otherwise `inconclusive`. Signs are tested at 0.025 one-sided after Holm over the usable deltas
(times blocks) that the claim speaks of.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from polarlens.statistics.contrasts import Comparison
from polarlens.statistics.estimates import Policies
from polarlens.statistics.intervals import Estimate, Interval, as_list, inside
from polarlens.statistics.kinds import ALPHA, Bands, losses_equal
from polarlens.statistics.multiplicity import bonferroni_level, holm
from polarlens.statistics.ratio import ratio, ratio_interval
from polarlens.statistics.verdict import pair_policy_name

PAPER_MODEL, PAPER_LAYERS, PAPER_PRESETS = "pythia-410m", "8-15", ("paper", "notebook")
REFERENCE_DELTA = {"absolute": 5.0}  # where one delta stands for a grid; 0.1 in the other modes


@dataclass(frozen=True)
class Claim:
    """id, the claim in words, and the published number (None where the paper gives none)."""

    id: str
    text: str
    paper: float | None


CLAIMS: tuple[Claim, ...] = (
    Claim("C1", "Angular perturbation harms next-token loss more than magnitude perturbation (ratio)", 42.9),
    Claim("C2", "Magnitude perturbation harms subject-verb agreement more than angular (points)", 18.8),
    Claim("C3", "Repairing attention recovers more of the angular than of the magnitude damage (fraction)", 0.132),
    Claim("C4", "Repairing the norms recovers more of the magnitude than of the angular damage (fraction)", 0.162),
    Claim("C5", "Angular errors grow more through the layers than magnitude errors (ratio of amplifications)", 3.18),
    Claim("C6", "Direction encodes part of speech better than magnitude (points)", 51.9),
    Claim("C7", "Magnitude encodes parse depth (gain in held-out R2 over confounds)", None),
    Claim("C8", "RMSNorm reverses the loss side", None),
    Claim("C9", "C1 and C3 hold at a scale of 1e9 parameters or more (ratio)", 56.8),
)
_NOT_BUILT = "not built in this version"
NOT_RUN = {
    **dict.fromkeys(("C3", "C4", "C5", "C6", "C7"), _NOT_BUILT),
    **dict.fromkeys(("C8", "C9"), "needs several models: see compare.json"),
}


@dataclass(frozen=True)
class Setting:
    """What the claims need to know about the run."""

    model: str
    preset: str
    delta_mode: str | None
    positions: str | None
    loss_measure: str
    policies: Policies
    clean_at_floor: Sequence[str]
    bands: Bands


def claim_entries(
    compared: Sequence[Comparison], setting: Setting, not_run: Mapping[str, str] | None = None
) -> list[dict[str, object]]:
    """The `claims` of the summary, C1 to C9. `not_run`: id -> reason, for claims that the run could not test."""
    here = [one for one in compared if one.condition.positions == setting.positions and one.phenomenon is None]
    reasons = {**NOT_RUN, **(not_run or {})}
    tested: dict[str, Callable[[], dict[str, object]]] = {
        "C1": lambda: _c1([one for one in here if one.measure == setting.loss_measure], setting),
        "C2": lambda: _c2([one for one in here if one.measure == "accuracy"], setting),
    }
    out = []
    for claim in CLAIMS:
        entry: dict[str, object] = {"id": claim.id, "claim": claim.text, "paper": claim.paper}
        blank = {"measured": None, "ci95": None, "status": "not_run", "size_agrees": None, "delta": None}
        found = tested[claim.id]() if claim.id in tested and claim.id not in reasons else {}
        why = found.get("why", reasons.get(claim.id))
        out.append({**entry, **blank, **found, "why": why})
    return out


def order_status(estimates: Sequence[Estimate], in_band: Sequence[bool]) -> tuple[str, str]:
    """(status, why) of a claim that states a positive sign. in_band: whether each interval lies in the band."""
    positive = [i for i, p in enumerate(holm([e.p_above() for e in estimates])) if p is not None and p <= ALPHA]
    negative = [i for i, p in enumerate(holm([e.p_below() for e in estimates])) if p is not None and p <= ALPHA]
    n = len(estimates)
    if positive and not negative:
        return "replicates", f"the stated order holds in {len(positive)} of {n} comparisons, the opposite in none"
    if negative and not positive:
        return "contradicts", f"the opposite order holds in {len(negative)} of {n} comparisons, the stated in none"
    if positive:
        return "inconclusive", "the stated order holds in some comparisons and the opposite in others"
    if n and all(in_band):
        return "contradicts", "every interval lies in the band of equivalence"
    why = "; ".join(dict.fromkeys(e.why for e in estimates if e.why))
    return "inconclusive", why or "neither order is established"


def reference_delta(deltas: Sequence[float], mode: str | None) -> float:
    """The delta that stands for a grid: the nearest to 0.1 (absolute: 5) on the log scale, the smaller of two."""
    wanted = REFERENCE_DELTA.get(mode or "", 0.1)
    return min(sorted(deltas), key=lambda delta: abs(math.log(delta / wanted)))


def _c1(loss: Sequence[Comparison], setting: Setting) -> dict[str, object]:
    """R at delta = 1, elsewhere at the smallest delta of the grid."""
    if not loss:
        return {"why": "next-token loss was not measured"}
    delta = _published(loss, 1.0, setting) or min(one.condition.delta for one in loss)
    at = [one for one in loss if one.condition.delta == delta]
    usable, why = _usable(at, "loss", setting)
    shown = _middle(at)
    value, undefined = ratio(shown.moments)
    interval, no_interval = ratio_interval(shown.moments) if value is not None else (None, undefined)
    status = "inconclusive"
    if usable:
        level = bonferroni_level(0.95, len(usable))
        in_band = [losses_equal(one.moments, level, setting.bands.loss_ratio) for one in usable]
        status, why = order_status([one.difference for one in usable], in_band)
    at99 = ratio_interval(shown.moments, 0.99)[0] if value is not None else None
    return {
        "measured": value,
        "ci95": as_list(interval),
        "status": status,
        "size_agrees": _size_agrees("C1", at99, shown, 1.0, setting),
        "delta": delta,
        "why": _because(why, undefined or no_interval, _where(shown, at)),
    }


def _c2(pairs: Sequence[Comparison], setting: Setting) -> dict[str, object]:
    """drop_magnitude - drop_angular at delta = 5, elsewhere at all usable deltas; the pair policies must agree."""
    if not pairs:
        return {"why": "minimal pairs were not measured"}
    under: dict[str, list[Comparison]] = {}
    for one in pairs:
        under.setdefault(pair_policy_name(one.condition.policy_id or "", setting.policies), []).append(one)
    delta = _published(pairs, 5.0, setting)
    status: dict[str, tuple[str, str]] = {}
    for name, members in under.items():
        at = [one for one in members if delta in (None, one.condition.delta)]
        usable, why = _usable(at, "pairs", setting)
        level, points = bonferroni_level(0.95, len(usable)), setting.bands.points
        estimates = [one.difference for one in usable]
        in_band = [inside(estimate.interval(level), -points, points) for estimate in estimates]
        status[name] = order_status(estimates, in_band) if usable else ("inconclusive", why)
    name = "independent" if "independent" in under else next(iter(under))
    grid = [one.condition.delta for one in under[name] if one.usable] or [one.condition.delta for one in under[name]]
    shown_delta = delta or reference_delta(grid, setting.delta_mode)
    at = [one for one in under[name] if one.condition.delta == shown_delta]
    shown = _middle(at)
    estimate = shown.difference
    agreed = len({found for found, _ in status.values()}) == 1
    named = "; ".join(f"{policy} noise: {found}, {why}" for policy, (found, why) in status.items())
    return {
        "measured": estimate.value,
        "ci95": as_list(estimate.interval()),
        "status": status[name][0] if agreed else "inconclusive",
        "size_agrees": _size_agrees("C2", estimate.interval(0.99), shown, 5.0, setting),
        "delta": shown_delta,
        "why": _because(
            named if agreed else f"the noise policies of the pairs disagree ({named})",
            estimate.why,
            f"measured under {name} noise at delta {shown_delta:g}",
            _where(shown, at),
        ),
    }


def _published(compared: Sequence[Comparison], delta: float, setting: Setting) -> float | None:
    """The published delta when it is on the grid (deltas are distances only in the absolute mode)."""
    on_grid = any(one.condition.delta == delta for one in compared)
    return delta if setting.delta_mode == "absolute" and on_grid else None


def _usable(at: Sequence[Comparison], task: str, setting: Setting) -> tuple[list[Comparison], str]:
    if task in setting.clean_at_floor:
        return [], "the clean score is at the floor of the task"
    usable = [one for one in at if one.usable]
    return usable, "" if usable else "both arms are at the floor of the task"


def _middle(at: Sequence[Comparison]) -> Comparison:
    """The one number shown: with one block at a time, the middle block's."""
    return sorted(at, key=lambda one: one.condition.order)[len(at) // 2]


def _where(shown: Comparison, at: Sequence[Comparison]) -> str:
    return f"measured at layers {shown.condition.layers}, tested at {len(at)} blocks" if len(at) > 1 else ""


def _because(*reasons: str | None) -> str:
    return "; ".join(reason for reason in reasons if reason)


def _size_agrees(claim: str, at99: Interval | None, shown: Comparison, delta: float, setting: Setting) -> bool | None:
    """Whether the 99 % interval holds the published number; null unless the setting is the paper's."""
    name = setting.model.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1].split("@")[0].lower()
    published = name == PAPER_MODEL and setting.preset in PAPER_PRESETS and setting.delta_mode == "absolute"
    if not published or shown.condition.delta != delta or shown.condition.layers != PAPER_LAYERS:
        return None
    paper = next(one.paper for one in CLAIMS if one.id == claim)
    return None if paper is None or at99 is None else at99[0] <= paper <= at99[1]
