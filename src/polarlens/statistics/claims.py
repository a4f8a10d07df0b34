"""What a run says about the published claims: C1 and C2 from the sweep, C3 to C7 from contrasts handed in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from polarlens.statistics.claims_given import Given, given_entry
from polarlens.statistics.contrasts import Comparison
from polarlens.statistics.estimates import Policies
from polarlens.statistics.intervals import Interval, as_list, inside
from polarlens.statistics.kinds import Bands, losses_equal
from polarlens.statistics.multiplicity import bonferroni_level
from polarlens.statistics.order import order_status, reference_delta
from polarlens.statistics.published import CLAIMS, PAPER_LAYERS, Claim, in_the_published_setting
from polarlens.statistics.ratio import ratio, ratio_interval
from polarlens.statistics.verdict import pair_policy_name

__all__ = ["CLAIMS", "Claim", "Given", "Setting", "claim_entries", "order_status", "reference_delta"]


@dataclass(frozen=True)
class Setting:
    """What the claims need to know about the run.

    clean_at_floor: task -> why its unperturbed score is at the floor. n_layers: blocks of the model, for the probes.
    """

    model: str
    preset: str
    delta_mode: str | None
    positions: str | None
    loss_measure: str
    policies: Policies
    clean_at_floor: Mapping[str, str]
    bands: Bands
    n_layers: int | None = None


def claim_entries(
    compared: Sequence[Comparison],
    setting: Setting,
    not_run: Mapping[str, str] | None = None,
    given: Mapping[str, Sequence[Given]] | None = None,
) -> list[dict[str, object]]:
    """The `claims` of the summary, C1 to C9.

    not_run: id -> reason, for claims that the run could not test. given: id -> contrasts of other experiments, for C3
    to C7.
    """
    here = [one for one in compared if one.condition.positions == setting.positions and one.phenomenon is None]
    tested: dict[str, Callable[[], dict[str, object]]] = {
        "C1": lambda: _c1([one for one in here if one.measure == setting.loss_measure], setting),
        "C2": lambda: _c2([one for one in here if one.measure == "accuracy"], setting),
    }
    reasons, out = not_run or {}, []

    def judged(claim: Claim) -> dict[str, object]:
        if claim.id in reasons:
            return {"why": reasons[claim.id]}
        if claim.id in tested:
            return tested[claim.id]()
        return given_entry(
            claim,
            (given or {}).get(claim.id, ()),
            model=setting.model,
            preset=setting.preset,
            delta_mode=setting.delta_mode,
            n_layers=setting.n_layers,
        )

    for claim in CLAIMS:
        entry: dict[str, object] = {"id": claim.id, "claim": claim.text, "paper": claim.paper}
        blank = {"measured": None, "ci95": None, "status": "not_run", "size_agrees": None, "delta": None, "why": None}
        out.append({**entry, **blank, **judged(claim)})
    return out


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
        status, why = order_status([one.difference for one in usable], in_band, _places(usable))
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
        status[name] = order_status(estimates, in_band, _places(usable)) if usable else ("inconclusive", why)
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
        return [], setting.clean_at_floor[task]
    usable = [one for one in at if one.usable]
    return usable, "" if usable else "both arms are at the floor of the task"


def _places(usable: Sequence[Comparison]) -> list[str]:
    return [f"delta {one.condition.delta:g}" for one in usable]


def _middle(at: Sequence[Comparison]) -> Comparison:
    """The one number shown: with one block at a time, the middle block's."""
    return sorted(at, key=lambda one: one.condition.order)[len(at) // 2]


def _where(shown: Comparison, at: Sequence[Comparison]) -> str:
    return f"measured at layers {shown.condition.layers}, tested at {len(at)} blocks" if len(at) > 1 else ""


def _because(*reasons: str | None) -> str:
    return "; ".join(reason for reason in reasons if reason)


def _size_agrees(claim: str, at99: Interval | None, shown: Comparison, delta: float, setting: Setting) -> bool | None:
    """Whether the 99 % interval holds the published number; null unless the setting is the paper's."""
    published = in_the_published_setting(setting.model, setting.preset, setting.delta_mode)
    if not published or shown.condition.delta != delta or shown.condition.layers != PAPER_LAYERS:
        return None
    paper = next(one.paper for one in CLAIMS if one.id == claim)
    return None if paper is None or at99 is None else at99[0] <= paper <= at99[1]
