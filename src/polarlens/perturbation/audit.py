"""The audit as a designed experiment: which noise policies are run to see what a finding hangs on. Data, no model.

From each of two corners, the presets `matched` and `notebook`, one factor at a time is moved to every other level, the
notebook's levels that differ between the arms (`mix`) among them. From `matched`, the two factors that share noise
(across layers, across the members of a pair) are crossed in full, each alike in both arms or as in the notebook.

Many of these combinations have the same effect: a text has no pair members, one layer shares nothing, and so on. They
are run once and named. This is decided arm by arm: a factor that touches one arm leaves the other's rows as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from polarlens.perturbation.policy import ARMS, LEVELS, MATCHED, NOTEBOOK, POSITIONS, Arm, Level, PerArm, Policy

CORNERS: Mapping[str, Policy] = {"matched": MATCHED, "notebook": NOTEBOOK}
CROSSED = ("across_layers", "across_members")
MIX = "mix"  # the level of the notebook, where it differs between the arms
_SHORT = {"across_layers": "layers", "across_items": "items", "across_members": "members"}
_DRAWING = ("across_layers", "across_items", "across_members")
SAME_ROTATION = "per token, additive noise turns by the distance asked toward the same direction as orthogonal noise"


@dataclass(frozen=True)
class AuditPolicy:
    """One combination: the corner it starts from, and what is changed there (factor -> level, `mix` as such).

    id: `matched`, or the corner and the changes, as in `matched:layers=shared,members=independent`.
    """

    id: str
    corner: str
    changes: Mapping[str, str]
    policy: Policy
    positions: str


@dataclass(frozen=True)
class Coincidence:
    """A combination that repeats another one: in one task, or (task None) in all, so that it is left out."""

    policy_id: str
    same_as: str
    task: str | None
    why: str


Sources = Mapping[Arm, str]  # arm -> the policy_id under which its rows are run


@dataclass(frozen=True)
class AuditDesign:
    """What to run.

    policies: the combinations that differ from every earlier one in one task or more. source: task -> policy_id -> arm
    -> the policy_id under which that arm's rows are run. skipped: what coincides, and why.
    """

    policies: tuple[AuditPolicy, ...]
    source: Mapping[str, Mapping[str, Sources]]
    skipped: tuple[Coincidence, ...]

    def runs(self, task: str) -> list[tuple[AuditPolicy, Arm]]:
        """The combinations and arms to run for a task."""
        of_task = self.source.get(task, {})
        return [(one, arm) for one in self.policies for arm in ARMS if of_task and of_task[one.id][arm] == one.id]


def audit_design(*, delta_mode: str, n_layers: int, tasks: Sequence[str] = ("loss", "pairs")) -> AuditDesign:
    """The design for a run with this delta mode, number of perturbed layers and tasks."""
    ran: dict[tuple[object, ...], str] = {}  # task, arm and all that matters in it -> the first policy with it
    paired: dict[tuple[str, ...], str] = {}  # task and the sources of both arms -> the first policy with them
    whole: dict[tuple[str, ...], str] = {}  # the sources of both arms in all tasks -> the first policy with them
    source: dict[str, dict[str, Sources]] = {task: {} for task in tasks}
    kept: list[AuditPolicy] = []
    skipped: list[Coincidence] = []
    for one in candidates():
        inert = {(task, arm): _inert(one.policy, arm, task, delta_mode, n_layers) for task in tasks for arm in ARMS}
        sources: dict[str, dict[Arm, str]] = {task: {} for task in tasks}
        for (task, arm), without in inert.items():
            sources[task][arm] = ran.setdefault((task, arm, *_matters(one, arm, without)), one.id)
        key = tuple(name for task in tasks for name in sources[task].values())
        if key in whole:
            skipped.append(Coincidence(one.id, whole[key], None, _why(one, inert)))
            continue
        whole[key] = one.id
        kept.append(one)
        for task in tasks:
            source[task][one.id] = sources[task]
            first = paired.setdefault((task, *sources[task].values()), one.id)
            if first != one.id:
                here = {(task, arm): inert[task, arm] for arm in ARMS}
                skipped.append(Coincidence(one.id, first, task, _why(one, here)))
    return AuditDesign(tuple(kept), source, tuple(skipped))


def candidates() -> tuple[AuditPolicy, ...]:
    """Corners, one factor at a time from each, and the cross; what is literally the same, once."""
    changes: list[tuple[str, dict[str, str]]] = [(corner, {}) for corner in CORNERS]
    changes += [("matched", {factor: level}) for factor, level in _other_levels("matched")]
    for levels in product(*[(*LEVELS[factor], MIX) for factor in CROSSED]):
        moved = {f: level for f, level in zip(CROSSED, levels, strict=True) if level != getattr(MATCHED, f)}
        changes.append(("matched", moved))
    changes += [("notebook", {factor: level}) for factor, level in _other_levels("notebook")]
    return tuple({(one := _policy(corner, moved)).id: one for corner, moved in changes}.values())


def _other_levels(corner: str) -> list[tuple[str, str]]:
    """(factor, level) for every level that the corner does not have."""
    found = [
        (factor, level)
        for factor, levels in LEVELS.items()
        for level in (*levels, *([MIX] if isinstance(getattr(NOTEBOOK, factor), PerArm) else []))
        if _level(factor, level) != getattr(CORNERS[corner], factor)
    ]
    return [*found, *(("positions", where) for where in POSITIONS[1:])]


def _level(factor: str, level: str) -> Level:
    mixed: Level = getattr(NOTEBOOK, factor)
    return mixed if level == MIX else level


def _policy(corner: str, changes: Mapping[str, str]) -> AuditPolicy:
    levels = {factor: _level(factor, level) for factor, level in changes.items() if factor != "positions"}
    text = ",".join(f"{_SHORT.get(factor, factor)}={level}" for factor, level in changes.items())
    positions = changes.get("positions", POSITIONS[0])
    return AuditPolicy(
        f"{corner}:{text}" if text else corner, corner, changes, CORNERS[corner].with_levels(**levels), positions
    )


def _inert(policy: Policy, arm: Arm, task: str, delta_mode: str, n_layers: int) -> dict[str, str]:
    """Factors whose level makes no difference in this arm, with the reason."""
    found: dict[str, str] = {}
    if task == "loss":
        found["across_members"] = "a text has no pair members"
    if n_layers == 1:
        found["across_layers"] = "one perturbed layer shares with no other"
    if delta_mode == "relative":
        found["infeasible"] = "a relative delta is feasible for every token"
    if arm == "magnitude":
        found |= dict.fromkeys(("matching", "plane"), "only the angular arm turns")
        if policy.level("sign", arm) != "random":
            found |= dict.fromkeys(_DRAWING, "with one sign for all tokens nothing is drawn")
            found["antithetic"] = "with one sign for all tokens there is no antithetic member"
    else:
        found["sign"] = "only the magnitude arm has a sign"
        plane = policy.level("plane", arm)
        # Its scale ends at about one norm: in reach for every feasible token of a state some hundred channels wide.
        reached = delta_mode == "relative" or policy.level("infeasible", arm) == "skip"
        if plane == "additive" and policy.level("matching", arm) == "token" and reached:
            found["plane"] = SAME_ROTATION
        if delta_mode == "relative" and (plane != "additive" or "plane" in found):
            found["matching"] = "a relative delta turns all tokens by one angle already"
    return found


def _matters(one: AuditPolicy, arm: Arm, inert: Mapping[str, str]) -> tuple[object, ...]:
    """All that makes a difference in this arm; a plane that makes none is the orthogonal one."""
    levels = {factor: None if factor in inert else one.policy.level(factor, arm) for factor in LEVELS}
    if arm == "angular" and levels["plane"] is None:
        levels["plane"] = MATCHED.level("plane", arm)
    return (one.positions, *levels.values())


def _why(one: AuditPolicy, inert: Mapping[tuple[str, Arm], Mapping[str, str]]) -> str:
    corner, reasons = CORNERS[one.corner], dict[str, None]()
    for factor, ((_, arm), without) in product(one.changes, inert.items()):
        if factor in without:
            reasons[without[factor]] = None
        elif factor in LEVELS and one.policy.level(factor, arm) == corner.level(factor, arm):
            reasons[f"the {arm} arm has this level already"] = None
    return "; ".join(reasons) or "each arm has these levels under another policy"
