"""The audit's design against what policies do to states, and against a count by hand."""

from itertools import product

import pytest
import torch

from polarlens.perturbation import (
    MATCHED,
    NOTEBOOK,
    PerArm,
    Sequence,
    align,
    coins,
    displace,
    gaussian,
    norms,
    reference,
)
from polarlens.perturbation.audit import audit_design, candidates

WIDTH, LAYERS = 512, (3, 4)
TEXT = (Sequence("a", None, 4), Sequence("b", None, 4))
PAIR = tuple(Sequence("p", m, 4, slots) for m, slots in enumerate(align((0, 1, 2, 3), (0, 5, 6, 3))))
STATES = torch.randn(2, 4, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
STATES *= torch.tensor([[3.0, 7.0, 9.0, 30.0], [7.0, 8.0, 4.0, 11.0]])[..., None] / norms(STATES)[..., None]
BANK = torch.randn(40, WIDTH, generator=torch.Generator().manual_seed(1)) * torch.linspace(0.1, 3, WIDTH)
REFERENCE = reference(BANK, torch.zeros(40))


def behaviour(policy, arm, task, mode, layers=LAYERS):
    """What the arm does to fixed states under this policy, all draws and members: (layers · members, 2, 4, WIDTH)."""
    done = []
    delta = 0.3 * norms(STATES) if mode == "relative" else torch.full(STATES.shape[:2], 5.0)
    sequences = TEXT if task == "loss" else PAIR
    for layer, sign in product(layers, policy.draw_signs(arm)):
        if arm == "magnitude":
            draw = torch.from_numpy(coins(policy, arm, 0, layer, sequences))
        else:
            draw = torch.from_numpy(gaussian(policy, arm, 0, layer, sequences, WIDTH))
        moved = displace(
            STATES, arm=arm, policy=policy, draw=draw, delta=delta, antithetic=sign or 1, reference=REFERENCE
        )
        done.append(moved.state)
    return torch.stack(done)


def classes(states):
    """A number per behaviour: the same where states agree to the precision of `additive`'s bisections."""
    seen = []
    for one in states:
        same = (k for k, other in enumerate(seen) if one.shape == other.shape and (one - other).abs().max() < 1e-3)
        number = next(same, len(seen))
        seen += [one] if number == len(seen) else []
        yield number


def expected_candidates():
    """Written out by hand: (corner, changes)."""
    mix = {"across_layers": PerArm("fresh", "shared"), "across_items": PerArm("fresh", "by-length")}
    mix |= {"across_members": PerArm("independent", "common"), "matching": PerArm("token", "mean")}
    other = {
        "matched": [
            ("across_layers", "shared"), ("across_layers", "mix"), ("across_items", "by-length"),
            ("across_items", "mix"), ("across_members", "independent"), ("across_members", "mix"),
            ("antithetic", "off"), ("sign", "grow"), ("sign", "shrink"), ("matching", "mean"), ("matching", "mix"),
            ("plane", "covariance"), ("plane", "data"), ("plane", "centred"), ("plane", "additive"),
            ("infeasible", "apply"), ("positions", "no-first"), ("positions", "no-sinks"),
        ],
        "notebook": [
            ("across_layers", "fresh"), ("across_layers", "shared"), ("across_items", "fresh"),
            ("across_items", "by-length"), ("across_members", "common"), ("across_members", "independent"),
            ("antithetic", "on"), ("sign", "grow"), ("sign", "shrink"), ("matching", "token"), ("matching", "mean"),
            ("plane", "orthogonal"), ("plane", "covariance"), ("plane", "data"), ("plane", "centred"),
            ("infeasible", "skip"), ("positions", "no-first"), ("positions", "no-sinks"),
        ],
    }  # fmt: skip
    cross = [
        {"across_layers": a, "across_members": b} for a in ("shared", "mix") for b in ("independent", "mix")
    ]  # the other five cells of the 3 x 3 are a corner or change one factor
    out = []
    for corner, base in (("matched", MATCHED), ("notebook", NOTEBOOK)):
        for changes in [{}, *({f: level} for f, level in other[corner]), *(cross if corner == "matched" else [])]:
            levels = {f: mix[f] if level == "mix" else level for f, level in changes.items() if f != "positions"}
            out.append((corner, changes, base.with_levels(**levels), changes.get("positions", "all")))
    return out


def test_candidates_are_one_factor_at_a_time_and_the_cross():
    want = expected_candidates()
    found = [(c.corner, dict(c.changes), c.policy, c.positions) for c in candidates()]
    assert len(found) == len(want) == 2 + 18 + 18 + 4
    assert all(one in want for one in found)
    assert len({c.id for c in candidates()}) == len(want)


@pytest.mark.parametrize("mode", ["relative", "absolute"])
def test_coincidences_are_those_of_what_the_policies_do(mode):
    """Two combinations coincide exactly when they move the same states by the same vectors, under either task."""
    design = audit_design(delta_mode=mode, n_layers=len(LAYERS))
    keys = [(c, task, arm) for c in candidates() for task in ("loss", "pairs") for arm in ("magnitude", "angular")]
    numbers = classes([behaviour(c.policy, arm, task, mode) for c, task, arm in keys])
    does = {(c.id, task, arm): (c.positions, number) for (c, task, arm), number in zip(keys, numbers, strict=True)}
    whole = {}
    for c in candidates():
        does_all = tuple(does[c.id, t, a] for t in ("loss", "pairs") for a in ("magnitude", "angular"))
        whole.setdefault(does_all, []).append(c.id)
    kept = {c.id for c in design.policies}
    assert len(kept) == len(whole)
    for same in whole.values():
        assert len(kept & set(same)) == 1, same
    dropped = {s.policy_id: s.same_as for s in design.skipped if s.task is None}
    assert set(dropped) == {c.id for c in candidates()} - kept
    for group in whole.values():
        for name in set(group) & set(dropped):
            assert dropped[name] in group
    for task in ("loss", "pairs"):
        for arm in ("magnitude", "angular"):
            runs = [one.id for one, a in design.runs(task) if a == arm]
            assert len(runs) == len({does[name, task, arm] for name in kept})
            for name in kept:
                assert does[name, task, arm] == does[design.source[task][name][arm], task, arm]
                assert design.source[task][name][arm] in runs
        pairs = {}
        for c in design.policies:
            pairs.setdefault((does[c.id, task, "magnitude"], does[c.id, task, "angular"]), []).append(c.id)
        named = {s.policy_id for s in design.skipped if s.task == task}
        assert named == {name for group in pairs.values() for name in group[1:]}
    assert all(s.why and "under another policy" not in s.why for s in design.skipped)


def test_named_coincidences():
    skipped = {(s.policy_id, s.task): s for s in audit_design(delta_mode="relative", n_layers=8).skipped}
    for name, same in (
        ("matched:matching=mean", "matched"), ("matched:matching=mix", "matched"),
        ("matched:plane=additive", "matched"), ("matched:infeasible=apply", "matched"),
        ("notebook:matching=mean", "notebook"), ("notebook:infeasible=skip", "notebook"),
    ):  # fmt: skip
        assert skipped[name, None].same_as == same
    assert skipped["matched:members=independent", "loss"].why == "a text has no pair members"
    assert skipped["matched:layers=shared,members=mix", "loss"].same_as == "matched:layers=shared"
    one = {(s.policy_id, s.task): s for s in audit_design(delta_mode="relative", n_layers=1).skipped}
    assert one["matched:layers=shared", None].why == "one perturbed layer shares with no other"
    assert one["matched:layers=shared,members=independent", None].same_as == "matched:members=independent"
    assert one["notebook:layers=fresh", None].same_as == "notebook"
    absolute = {s.policy_id for s in audit_design(delta_mode="absolute", n_layers=8).skipped if s.task is None}
    assert absolute == {"matched:matching=mix", "matched:plane=additive", "notebook:matching=mean"}


def test_one_task():
    """Without pairs, what shares noise across the members of a pair is left out altogether."""
    design = audit_design(delta_mode="relative", n_layers=8, tasks=("loss",))
    assert not [c for c in design.policies if "across_members" in c.changes]
    assert set(design.source) == {"loss"}


def test_one_sign_draws_nothing():
    """Growing every token is the same magnitude arm from either corner."""
    design = audit_design(delta_mode="relative", n_layers=8)
    for task in ("loss", "pairs"):
        assert design.source[task]["notebook:sign=grow"] == {"magnitude": "matched:sign=grow", "angular": "notebook"}
        assert design.source[task]["matched:sign=shrink"]["angular"] == "matched"
