"""Does direction carry one ability and magnitude another? The answer of a run, under each noise policy of the pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from polarlens.statistics.contrasts import Comparison
from polarlens.statistics.damage import Condition
from polarlens.statistics.estimates import Policies
from polarlens.statistics.intervals import as_list
from polarlens.statistics.kinds import DEFAULT_BANDS, Bands, DeltaKind, Sides, classify, overall
from polarlens.statistics.multiplicity import bonferroni_level

PAIR_LEVELS = ("common", "independent")
Place = tuple[str | None, float]  # layers, delta


@dataclass(frozen=True)
class PolicyVerdict:
    """The verdict under one pair policy: the kind of the run, of each block, and of each usable (layers, delta)."""

    kind: str
    by_layer: Mapping[str | None, str] = field(default_factory=dict)
    found: Mapping[Place, DeltaKind] = field(default_factory=dict)
    sides: Mapping[Place, Sides] = field(default_factory=dict)
    unusable: tuple[Place, ...] = ()
    why: str | None = None

    def places(self, kind: str, layers: Sequence[str | None] | None = None) -> set[Place]:
        """Where `kind` holds; for `mixed`, where any kind but `inconclusive` and `none` does."""
        here = {place: one for place, one in self.found.items() if layers is None or place[0] in layers}
        if kind == "mixed":
            return {place for place, one in here.items() if one.kind not in ("inconclusive", "none")}
        return set() if kind == "inconclusive" else {place for place, one in here.items() if one.kind == kind}


def verdict(
    compared: Sequence[Comparison],
    *,
    positions: str | None,
    loss_measure: str,
    policies: Policies,
    clean_at_floor: Mapping[str, str] | None = None,
    bands: Bands = DEFAULT_BANDS,
) -> dict[str, object]:
    """The `verdict` of the summary from the comparisons of a sweep under one choice of `positions`.

    The headline needs the pair policies (`common` and `independent` noise across the members of a pair) to agree on the
    kind and on a place where it holds. `by_pair_policy` has the keys `common` and `independent`, null where that policy
    was not run; a pair policy that treats the arms differently stands under its own id. `clean_at_floor`: task ->
    why its unperturbed score is at the floor.
    """
    here = [one for one in compared if one.condition.positions == positions and one.phenomenon is None]
    loss = [one for one in here if one.measure == loss_measure]
    pairs = [one for one in here if one.measure == "accuracy"]
    missing = [name for name, side in (("loss", loss), ("pairs", pairs)) if not side]
    header = {
        "positions": positions,
        "loss_measure": loss_measure,
        "bands": {"points": bands.points, "loss_ratio": bands.loss_ratio},
    }
    if missing:
        why = f"the verdict needs both tasks; not measured: {', '.join(missing)}"
        return {"kind": "inconclusive", "deltas": [], "by_pair_policy": _by_pair_policy({}), "why": why, **header}
    under: dict[str, PolicyVerdict] = {}
    for policy_id in sorted({one.condition.policy_id or "" for one in pairs}):
        pair_side = [one for one in pairs if (one.condition.policy_id or "") == policy_id]
        loss_id = matching_loss_policy(policy_id, {one.condition.policy_id or "" for one in loss}, policies)
        loss_side = [one for one in loss if (one.condition.policy_id or "") == loss_id]
        under[pair_policy_name(policy_id, policies)] = _under_one(loss_side, pair_side, clean_at_floor or {}, bands)
    kind, deltas, why = _headline(under)
    out: dict[str, object] = {"kind": kind, "deltas": deltas, "by_pair_policy": _by_pair_policy(under)}
    blocks = _blocks(under)
    if len(blocks) > 1:
        out["by_layer"] = {
            str(block): dict(zip(("kind", "deltas", "why"), _headline(under, block), strict=True)) for block in blocks
        }
    return {**out, "why": why, **header, "by_delta": _details(under)}


def pair_policy_name(policy_id: str, policies: Policies) -> str:
    """`common` or `independent`, or the id of a policy whose arms differ in this factor."""
    level = policies.get(policy_id, {}).get("across_members")
    return level if isinstance(level, str) else policy_id


def matching_loss_policy(pair_id: str, loss_ids: set[str], policies: Policies) -> str:
    """The loss policy that agrees with a pair policy in every factor that a text has; the first one otherwise."""

    def factors(policy_id: str) -> dict[str, object]:
        return {name: level for name, level in policies.get(policy_id, {}).items() if name != "across_members"}

    alike = [loss_id for loss_id in sorted(loss_ids) if factors(loss_id) == factors(pair_id)]
    return (alike or sorted(loss_ids))[0]


def _under_one(
    loss: Sequence[Comparison], pairs: Sequence[Comparison], clean_at_floor: Mapping[str, str], bands: Bands
) -> PolicyVerdict:
    if clean_at_floor:
        blocks = dict.fromkeys((one.condition.layers for one in pairs), "uninformative")
        why = f"the clean score is at the floor: {'; '.join(clean_at_floor.values())}"
        return PolicyVerdict("uninformative", blocks, why=why)
    by_place = {_place(one.condition): one for one in loss}
    shared = [(by_place[_place(one.condition)], one) for one in pairs if _place(one.condition) in by_place]
    usable = [(a, b) for a, b in shared if a.usable and b.usable]
    unusable = tuple(_place(a.condition) for a, b in shared if not (a.usable and b.usable))
    if not usable:
        why = "both arms are at a floor at every delta" if shared else "the tasks share no delta"
        return PolicyVerdict("uninformative", unusable=unusable, why=why)
    sides = {_place(a.condition): Sides(a.moments, b.moments) for a, b in usable}
    found = dict(zip(sides, classify(list(sides.values()), bands), strict=True))
    by_layer = {
        block: overall([found[place].kind for place in found if place[0] == block])
        for block in dict.fromkeys(place[0] for place in (*sides, *unusable))
    }
    return PolicyVerdict(overall(list(by_layer.values())), by_layer, found, sides, unusable)


def _headline(under: Mapping[str, PolicyVerdict], block: str | None = None) -> tuple[str, list[float], str]:
    """(kind, deltas, why) of the run, or of one block."""
    layers = None if block is None else [block]
    kinds = {name: v.kind if block is None else v.by_layer.get(block, "uninformative") for name, v in under.items()}
    named = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
    if len(set(kinds.values())) > 1:
        return "inconclusive", [], f"the noise policies of the pairs disagree ({named})"
    kind = next(iter(kinds.values()))
    reasons = "; ".join(dict.fromkeys(v.why for v in under.values() if v.why))
    if kind == "uninformative":
        return kind, [], reasons or "both arms are at a floor at every delta"
    if kind == "inconclusive":
        return kind, [], f"no kind is established at any usable delta ({named})"
    places = set.intersection(*(v.places(kind, layers) for v in under.values()))
    if not places:
        return "inconclusive", [], f"the noise policies of the pairs agree on {kind}, but at no common delta"
    deltas = sorted({delta for _, delta in places})
    return kind, deltas, f"{kind} at delta {', '.join(f'{delta:g}' for delta in deltas)} ({named})"


def _details(under: Mapping[str, PolicyVerdict]) -> list[dict[str, object]]:
    """What was tested at each delta: the two contrasts with the simultaneous intervals that decided."""
    out: list[dict[str, object]] = []
    for name, v in under.items():
        level = bonferroni_level(0.95, len(v.found))
        for (layers, delta), one in v.found.items():
            where = {"pair_policy": name, "layers": layers, "delta": delta}
            tested = {
                task: {"value": d.value, "ci_simultaneous": as_list(d.interval(level)), "why": d.why}
                for task, d in (("loss", v.sides[layers, delta].d_loss), ("accuracy", v.sides[layers, delta].d_acc))
            }
            out.append({**where, "kind": one.kind, "arm": one.arm, "p_holm": one.p_holm, "usable": True, **tested})
        out.extend(
            {"pair_policy": name, "layers": layers, "delta": delta, "kind": None, "usable": False}
            for layers, delta in v.unusable
        )
    return out


def _by_pair_policy(under: Mapping[str, PolicyVerdict]) -> dict[str, str | None]:
    return {**dict.fromkeys(PAIR_LEVELS), **{name: v.kind for name, v in under.items()}}


def _blocks(under: Mapping[str, PolicyVerdict]) -> list[str | None]:
    return list(dict.fromkeys(block for v in under.values() for block in v.by_layer))


def _place(condition: Condition) -> Place:
    return (condition.layers, condition.delta)
