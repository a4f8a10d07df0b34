"""displace against a slow reference: one token at a time, NumPy, angles instead of the q form."""

import math
from collections.abc import Sequence as Many

import numpy as np
import pytest
import torch
from torch import Tensor

from polarlens.errors import NumericalError, UsageError
from polarlens.perturbation import (
    ARMS,
    LEVELS,
    MATCHED,
    NOTEBOOK,
    Arm,
    Displacement,
    Policy,
    Reference,
    Sequence,
    coins,
    displace,
    gaussian,
    norms,
    reference,
)

B, T, D = 4, 6, 10
LENGTHS = (6, 3, 5, 1)
SEQUENCES = [Sequence(str(i), None, n) for i, n in enumerate(LENGTHS)]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def states(dtype: torch.dtype = torch.float64) -> Tensor:
    """States of norms spread over a factor of 40, with an offset, padded with nonsense."""
    size = torch.logspace(-0.8, 0.8, B * T, dtype=torch.float64).view(B, T, 1)
    return ((normal(B, T, D) + 0.5) * size).to(dtype)


def real() -> Tensor:
    return torch.arange(T)[None] < torch.tensor(LENGTHS)[:, None]


def drawn(policy: Policy, arm: Arm) -> Tensor:
    if arm == "magnitude":
        return torch.from_numpy(coins(policy, arm, 1, 2, SEQUENCES))
    return torch.from_numpy(gaussian(policy, arm, 1, 2, SEQUENCES, D))


def clean_reference() -> Reference:
    scale = torch.logspace(0, 1.5, D, dtype=torch.float64)
    return reference(normal(40, D, seed=5) * scale, torch.arange(40) < 2)


# --- the slow reference ------------------------------------------------------------------------------------------


def slow_ambient(plane: str, z: np.ndarray, ref: Reference) -> np.ndarray:
    if plane == "covariance":
        factor = ref.factor.numpy().astype(float)
        return np.asarray(factor @ z[: factor.shape[1]].astype(float))
    if plane == "data":
        bank = ref.bank.numpy()
        uniform = 0.5 * (1 + math.erf(float(z[0]) / math.sqrt(2)))
        return np.asarray(bank[int(uniform * len(bank))], dtype=float)
    return np.asarray(z, dtype=float)


def slow_turn(plane: str, h: np.ndarray, z: np.ndarray, chord: float, sign: int, ref: Reference) -> np.ndarray:
    """Rotate h by the angle that belongs to the chord, toward the part of the draw outside span{h (, ones)}."""
    n = float(np.linalg.norm(h))
    inside = [h, np.ones_like(h)] if plane == "centred" else [h]
    basis = np.linalg.qr(np.stack(inside, axis=1))[0]
    g = slow_ambient(plane, z, ref)
    v = g - basis @ (basis.T @ g)
    v = v - basis @ (basis.T @ v)
    v = sign * v / np.linalg.norm(v)
    angle = 2 * math.asin(min(1.0, chord / (2 * n)))
    return np.asarray(math.cos(angle) * h + n * math.sin(angle) * v)


def slow_additive(h: np.ndarray, w: np.ndarray, s: float) -> np.ndarray:
    n = float(np.linalg.norm(h))
    turned = h / n + s * w
    return np.asarray(n * turned / np.linalg.norm(turned))


def slow_bisection(hs: Many[np.ndarray], ws: Many[np.ndarray], asked: float) -> tuple[float, bool]:
    """The scale s in [0, 2] at which the tokens' average distance is `asked`, and whether 2 is not enough."""

    def average(s: float) -> float:
        return float(np.mean([np.linalg.norm(slow_additive(h, w, s) - h) for h, w in zip(hs, ws, strict=True)]))

    low, high = 0.0, 2.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if average(middle) < asked else (low, middle)
    return (low + high) / 2, average(2.0) < asked


def slow(
    h: Tensor, arm: Arm, policy: Policy, draw: Tensor, delta: Tensor, antithetic: int, ref: Reference
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """State in float64, asked and saturated."""
    x, z, out = h.double().numpy(), draw.numpy(), h.double().numpy().copy()
    asked, saturated = np.zeros(delta.shape), np.zeros(len(x), dtype=bool)
    plane, sign = policy.level("plane", arm), policy.level("sign", arm)
    apply, mean = policy.level("infeasible", arm) == "apply", policy.level("matching", arm) == "mean"
    for b in range(x.shape[0]):
        moving = []
        for t in range(x.shape[1]):
            n, d = float(np.linalg.norm(x[b, t])), float(delta[b, t])
            if d > 0 and n > 0 and (apply or d < n):
                asked[b, t] = d
                moving.append(t)
        if not moving:
            continue
        if arm == "magnitude":
            for t in moving:
                side = {"grow": 1, "shrink": -1, "random": int(z[b, t]) * antithetic}[sign]
                out[b, t] = x[b, t] * (1 + side * asked[b, t] / np.linalg.norm(x[b, t]))
        elif plane == "additive":
            w = {t: antithetic * z[b, t].astype(float) / np.linalg.norm(z[b, t].astype(float)) for t in moving}
            for group in [moving] if mean else [[t] for t in moving]:
                average = float(np.mean([asked[b, t] for t in group]))
                s, short = slow_bisection([x[b, t] for t in group], [w[t] for t in group], average)
                saturated[b] |= short
                for t in group:
                    out[b, t] = slow_additive(x[b, t], w[t], s)
        else:
            lengths = {t: float(np.linalg.norm(x[b, t])) for t in moving}
            common = sum(asked[b, t] for t in moving) / sum(lengths.values())
            for t in moving:
                chord = common * lengths[t] if mean else asked[b, t]
                saturated[b] |= chord > 2 * lengths[t]
                out[b, t] = slow_turn(plane, x[b, t], z[b, t], min(chord, 2 * lengths[t]), antithetic, ref)
    return out, asked, saturated


# --- agreement ---------------------------------------------------------------------------------------------------

ROTATIONS = [
    MATCHED.with_levels(plane=plane, matching=matching, infeasible=infeasible)
    for plane in LEVELS["plane"]
    for matching in LEVELS["matching"]
    for infeasible in LEVELS["infeasible"]
]
LENGTHENINGS = [
    MATCHED.with_levels(sign=sign, infeasible=infeasible, matching=matching)
    for sign in LEVELS["sign"]
    for infeasible in LEVELS["infeasible"]
    for matching in LEVELS["matching"]
]
CASES: list[tuple[Arm, Policy]] = [
    *(("angular", policy) for policy in [*ROTATIONS, NOTEBOOK]),
    *(("magnitude", policy) for policy in [*LENGTHENINGS, NOTEBOOK]),
]


def deltas(kind: str, h: Tensor) -> Tensor:
    n = norms(h)
    if kind == "relative":
        return torch.where(real(), 0.3 * n, 0.0)
    # One distance for all tokens, above the norm of some; every third token is excluded.
    asked = torch.full_like(n, float(n.median()))
    asked[:, ::3] = 0
    asked[0] = 5 * n[0].max()  # a whole sequence out of reach
    return torch.where(real(), asked, 0.0)


@pytest.mark.parametrize("kind", ["relative", "absolute"])
@pytest.mark.parametrize(("arm", "policy"), CASES)
def test_agrees_with_the_slow_reference(arm: Arm, policy: Policy, kind: str) -> None:
    h, ref = states(), clean_reference()
    h[2, 1] = 0
    delta, draw = deltas(kind, h), drawn(policy, arm)
    if kind == "absolute":
        delta[2, 1] = 0.5
    members = [m or 1 for m in policy.draw_signs(arm)]
    for antithetic in members:
        moved = displace(h, arm=arm, policy=policy, draw=draw, delta=delta, antithetic=antithetic, reference=ref)
        state, asked, saturated = slow(h, arm, policy, draw, delta, antithetic, ref)
        # The bisection may fall on either side at its last step: 2^-20.
        loose = policy.level("plane", arm) == "additive" and arm == "angular"
        assert np.allclose(moved.state.numpy(), state, rtol=0, atol=2e-5 if loose else 1e-12 * float(norms(h).max()))
        assert np.array_equal(moved.asked.numpy(), asked)
        assert np.array_equal(moved.saturated.numpy(), saturated)
        n = np.linalg.norm(h.numpy(), axis=-1)
        assert np.allclose(moved.realised.numpy(), np.linalg.norm(moved.state.numpy() - h.numpy(), axis=-1), atol=1e-14)
        change = np.linalg.norm(moved.state.numpy(), axis=-1) / np.where(n > 0, n, 1) - 1
        assert np.allclose(moved.norm_change.numpy(), np.where(asked > 0, change, 0), atol=1e-14)
        assert np.array_equal(moved.left.numpy(), (delta.numpy() > 0) & (delta.numpy() >= n))
        stays = torch.from_numpy(asked == 0)
        assert torch.equal(moved.state[stays].view(torch.int64), h[stays].view(torch.int64))
        assert not moved.realised[stays].any()


def run(
    h: Tensor, arm: Arm, share: float, policy: Policy = MATCHED, antithetic: int = 1, reference: Reference | None = None
) -> Displacement:
    """One draw over (B, T, d) states at a relative distance."""
    sequences = [Sequence(str(i), None, h.shape[1]) for i in range(len(h))]
    draw = (
        coins(policy, arm, 0, 0, sequences)
        if arm == "magnitude"
        else gaussian(policy, arm, 0, 0, sequences, h.shape[2])
    )
    return displace(
        h, arm=arm, policy=policy, draw=torch.from_numpy(draw), delta=share * norms(h),
        antithetic=antithetic, reference=reference,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("arm", ARMS)
def test_lower_precision_is_the_cast_of_float64(arm: Arm, dtype: torch.dtype) -> None:
    h = normal(3, 5, 64).to(dtype)
    moved, exact = run(h, arm, 0.2), run(h.double(), arm, 0.2)
    assert moved.state.dtype == dtype
    assert torch.equal(moved.state, exact.state.to(dtype))
    # What is reported is the distance of the states as cast, not the one meant.
    assert torch.allclose(moved.realised, (moved.state.double() - h.double()).norm(dim=-1), rtol=1e-14)
    assert not torch.allclose(moved.realised, exact.realised, rtol=1e-10)
    assert torch.allclose(moved.realised, exact.realised, rtol=0.02)
    assert moved.asked.dtype == moved.realised.dtype == moved.norm_change.dtype == torch.float64


def test_bfloat16_loses_small_displacements_and_says_so() -> None:
    h = normal(4, 100, 576).bfloat16()
    lengthened, turned = run(h, "magnitude", 0.001), run(h, "angular", 0.001)
    assert torch.equal(lengthened.state, h)
    assert not lengthened.realised.any()
    assert lengthened.asked.min() > 0
    assert 0.78 < float(turned.realised.mean() / turned.asked.mean()) < 0.88
    fine = run(h.float(), "magnitude", 0.001)
    assert torch.allclose(fine.realised, fine.asked, rtol=1e-3)


def test_float16_sinks_do_not_overflow_and_a_real_overflow_is_named() -> None:
    h = (20 * normal(2, 3, 64)).half()
    h[..., 0] = 3000
    wide = torch.full((2, 3, 4096), 1500.0, dtype=torch.float16)  # norm 96000, beyond fp16
    for arm in ARMS:
        for x in (h, wide):
            moved = run(x, arm, 0.1)
            assert moved.state.isfinite().all()
            assert torch.allclose(moved.realised, moved.asked, rtol=1e-2)
    full = torch.full((2, 3, 8), 50000.0, dtype=torch.float16)
    with pytest.raises(NumericalError, match=r"row 0, token 0.*float16"):
        run(full, "magnitude", 0.9, MATCHED.with_levels(sign="grow"))


@pytest.mark.parametrize("arm", ARMS)
def test_mean_and_token_agree_in_relative_mode(arm: Arm) -> None:
    h = states()
    token = run(h, arm, 0.4)
    mean = run(h, arm, 0.4, MATCHED.with_levels(matching="mean"))
    assert torch.allclose(mean.state, token.state, rtol=1e-13)


@pytest.mark.parametrize("plane", LEVELS["plane"])
def test_mean_matching_keeps_the_average_not_each_distance(plane: str) -> None:
    h = states()
    delta = torch.full((B, T), 0.1, dtype=torch.float64)
    delta[:, 0] = 0
    policy = MATCHED.with_levels(matching="mean", plane=plane)
    moved = displace(
        h, arm="angular", policy=policy, draw=normal(B, T, D, seed=3), delta=delta, reference=clean_reference()
    )
    assert torch.allclose(moved.realised[:, 1:].mean(-1), torch.full((B,), 0.1, dtype=torch.float64), rtol=5e-4)
    assert (moved.realised[:, 1:].amax(-1) / moved.realised[:, 1:].amin(-1) > 1.1).all()
    assert not moved.realised[:, 0].any()


def test_additive_saturates_near_one_norm_and_says_in_which_sequence() -> None:
    h = normal(2, 50, 400)
    n = norms(h)
    delta = torch.stack([1.5 * n[0], 0.2 * n[1]])
    for matching in LEVELS["matching"]:
        policy = NOTEBOOK.with_levels(matching=matching)
        moved = displace(h, arm="angular", policy=policy, draw=normal(2, 50, 400, seed=1), delta=delta)
        assert moved.saturated.tolist() == [True, False]
        # A perpendicular w at s = 2 turns by atan(2), a chord of 1.05 norms.
        chord = 2 * math.sin(math.atan(2) / 2)
        assert float((moved.realised[0] / n[0]).mean()) == pytest.approx(chord, rel=0.02)
        assert float(moved.realised[1].mean()) == pytest.approx(float(delta[1].mean()), rel=1e-4)
        assert moved.left[0].all()
        assert not moved.left[1].any()


def test_antithetic_members() -> None:
    h, ref = states(), clean_reference()
    plus, minus = (run(h, "magnitude", 0.3, antithetic=a).state for a in (1, -1))
    assert torch.allclose(plus + minus, 2 * h, rtol=1e-14)
    for plane in set(LEVELS["plane"]) - {"additive"}:
        policy = MATCHED.with_levels(plane=plane)
        plus, minus = (run(h, "angular", 0.3, policy, a, ref).state for a in (1, -1))
        assert torch.allclose(plus + minus, 2 * (1 - 0.3**2 / 2) * h, atol=1e-12)
        assert not torch.allclose(plus, minus, atol=0.01)
    # Under additive -w is not the mirror image, but both have the distance asked for.
    policy = MATCHED.with_levels(plane="additive")
    for a in (1, -1):
        moved = run(h, "angular", 0.3, policy, a)
        assert torch.allclose(moved.realised, moved.asked, rtol=1e-4)
    for sign in ("grow", "shrink"):
        with pytest.raises(UsageError, match="antithetic"):
            run(h, "magnitude", 0.3, MATCHED.with_levels(sign=sign), -1)


def test_tokens_that_become_infeasible_are_left_in_both_arms_or_applied() -> None:
    h = states()
    n = norms(h)
    delta = 0.5 * n
    delta[1, 2], delta[3, 0] = n[1, 2], 1.5 * n[3, 0]
    expected = torch.zeros(B, T, dtype=torch.bool)
    expected[1, 2] = expected[3, 0] = True
    draws = {"magnitude": torch.ones(B, T, dtype=torch.int8), "angular": normal(B, T, D, seed=1)}
    for arm in ARMS:
        skipped = displace(h, arm=arm, policy=MATCHED, draw=draws[arm], delta=delta)
        assert torch.equal(skipped.left, expected)
        assert torch.equal(skipped.asked == 0, expected)
        assert torch.equal(skipped.state[expected], h[expected])
        applied = displace(h, arm=arm, policy=MATCHED.with_levels(infeasible="apply"), draw=draws[arm], delta=delta)
        assert torch.equal(applied.left, expected)
        assert torch.allclose(applied.realised, delta, rtol=1e-12)
        assert torch.equal(applied.state[~expected], skipped.state[~expected])
    # A shrink beyond the norm flips the direction: this is what `apply` does, and what `skip` prevents.
    shrunk = displace(
        h, arm="magnitude", policy=MATCHED.with_levels(infeasible="apply", sign="shrink"), draw=draws["magnitude"],
        delta=delta,
    )  # fmt: skip
    assert torch.allclose(shrunk.state[3, 0], -0.5 * h[3, 0], rtol=1e-12)


@pytest.mark.parametrize("arm", ARMS)
def test_batches_blocks_and_padding_do_not_matter(arm: Arm) -> None:
    """64 sequences fill several blocks; each alone, unpadded, gives the same numbers."""
    rows, width, d = 64, 12, 32
    h = normal(rows, width, d).float()
    sequences = [Sequence(str(i), None, 1 + i % width) for i in range(rows)]
    takes_part = torch.arange(width)[None] < torch.tensor([s.n_tokens for s in sequences])[:, None]
    h[~takes_part] = math.nan
    delta = torch.where(takes_part, 0.2 * norms(h), 0.0)
    for policy in (MATCHED, MATCHED.with_levels(matching="mean"), NOTEBOOK):

        def act(batch: list[Sequence], x: Tensor, asked: Tensor, policy: Policy = policy) -> Displacement:
            draw = coins(policy, arm, 0, 0, batch) if arm == "magnitude" else gaussian(policy, arm, 0, 0, batch, d)
            return displace(x, arm=arm, policy=policy, draw=torch.from_numpy(draw), delta=asked)

        together = act(sequences, h, delta)
        assert torch.equal(together.state.isnan().any(-1), ~takes_part)
        assert not together.realised[~takes_part].any()
        for i in (0, 11, 30, 63):
            n = sequences[i].n_tokens
            alone = act([sequences[i]], h[i : i + 1, :n], delta[i : i + 1, :n])
            assert torch.allclose(alone.state[0], together.state[i, :n], rtol=1e-6)
            assert torch.allclose(alone.realised[0], together.realised[i, :n], rtol=1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("infeasible", LEVELS["infeasible"])
def test_states_that_are_not_finite_are_named(arm: Arm, bad: float, infeasible: str) -> None:
    h = normal(40, 20, 8)
    h[33, 7, 2] = bad
    policy = MATCHED.with_levels(infeasible=infeasible)
    draw = torch.ones(40, 20, dtype=torch.int8) if arm == "magnitude" else normal(40, 20, 8, seed=1)
    delta = torch.full((40, 20), 0.1, dtype=torch.float64)
    with pytest.raises(NumericalError, match="row 33, token 7: the state is not finite"):
        displace(h, arm=arm, policy=policy, draw=draw, delta=delta)
    delta[33, 7] = 0
    assert displace(h, arm=arm, policy=policy, draw=draw, delta=delta).realised.isfinite().all()


def test_bad_distances_and_missing_draws_are_named() -> None:
    h, delta = normal(2, 3, 4), torch.full((2, 3), 0.1, dtype=torch.float64)
    signs, z = torch.ones(2, 3, dtype=torch.int8), normal(2, 3, 4, seed=1)
    for wrong in (-0.1, math.nan):
        asked = delta.clone()
        asked[1, 2] = wrong
        with pytest.raises(NumericalError, match=r"row 1, token 2.*distance"):
            displace(h, arm="magnitude", policy=MATCHED, draw=signs, delta=asked)
    signs[1, 0], z[0, 1] = 0, 0
    with pytest.raises(NumericalError, match=r"row 1, token 0.*draw"):
        displace(h, arm="magnitude", policy=MATCHED, draw=signs, delta=delta)
    for plane in ("orthogonal", "centred", "additive"):
        with pytest.raises(NumericalError, match=r"row 0, token 1.*draw"):
            displace(h, arm="angular", policy=MATCHED.with_levels(plane=plane), draw=z, delta=delta)
    only = reference(torch.stack([h[0, 0], h[0, 0]]), torch.zeros(2, dtype=torch.bool))
    with pytest.raises(NumericalError, match=r"row 0, token 0.*draw"):
        displace(
            h,
            arm="angular",
            policy=MATCHED.with_levels(plane="data"),
            draw=normal(2, 3, 4),
            delta=delta,
            reference=only,
        )


def test_the_arms_are_matched_and_change_one_coordinate_each() -> None:
    h = normal(2, 100, 64)
    along, across = run(h, "magnitude", 0.1), run(h, "angular", 0.1)
    assert torch.allclose(along.realised, across.realised, rtol=1e-12)
    assert torch.allclose(along.norm_change.abs(), torch.full_like(along.norm_change, 0.1), rtol=1e-12)
    assert across.norm_change.abs().max() < 1e-14
    turned = torch.nn.functional.cosine_similarity(h, across.state, dim=-1)
    assert torch.allclose(turned, torch.full_like(turned, 1 - 0.1**2 / 2), rtol=1e-12)
    assert torch.allclose(torch.nn.functional.cosine_similarity(h, along.state, dim=-1), torch.ones(2, 100).double())


def test_the_input_is_left_alone() -> None:
    h = states()
    before = h.clone()
    for arm in ARMS:
        run(h, arm, 0.3)
    assert torch.equal(h, before)
