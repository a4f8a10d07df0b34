"""The two arms against arithmetic that does not share their code: math.dist, math.hypot and Fractions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from polarlens.errors import UsageError
from polarlens.perturbation import (
    angular,
    distance,
    feasible,
    geometry,
    magnitude,
    norm_change,
    norms,
    tangent,
)

EPS = np.finfo(np.float64).eps
settings.register_profile("geometry", deadline=None, max_examples=150, derandomize=True)
settings.load_profile("geometry")

exponents = st.floats(-30, 30)
shares = st.floats(-8, -1e-3).map(lambda e: 10.0**e)
seeds = st.integers(0, 2**32)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


def vector(d: int, exponent: float, seed: int) -> tuple[Tensor, Tensor, float]:
    """A state of norm about 10^exponent, an ambient draw, and the state's norm by math.hypot."""
    h = normal(d, seed=seed) * 10.0**exponent / math.sqrt(d)
    return h, normal(d, seed=seed + 1), math.hypot(*h.tolist())


def tolerance(share: float) -> float:
    return 1e-12 + 8 * EPS / share


@given(st.integers(1, 96), exponents, shares, st.sampled_from([1, -1]), seeds)
def test_magnitude_moves_by_the_distance_along_the_state(d: int, e: float, share: float, sign: int, seed: int) -> None:
    h, _, n = vector(d, e, seed)
    delta = share * n
    moved = magnitude(h, delta, sign)
    assert abs(math.dist(moved, h) / delta - 1) <= tolerance(share)
    assert math.hypot(*moved.tolist()) == pytest.approx(n + sign * delta, abs=8 * EPS * n)
    factors = (moved / h)[h != 0]
    assert float(factors.max() - factors.min()) <= 4 * EPS  # one factor for all coordinates: the direction is kept


@given(st.integers(2, 96), exponents, shares, seeds)
def test_angular_moves_by_the_distance_and_keeps_the_norm(d: int, e: float, share: float, seed: int) -> None:
    h, g, n = vector(d, e, seed)
    delta = share * n
    v = tangent(h, g)
    moved = angular(h, delta, v)
    assert abs(math.dist(moved, h) / delta - 1) <= tolerance(share)
    assert abs(math.hypot(*moved.tolist()) / n - 1) <= 8 * EPS
    # The part that is not along h is along v.
    rest = np.array(moved.tolist()) - (1 - share**2 / 2) * np.array(h.tolist())
    assert np.allclose(rest / np.linalg.norm(rest), v.numpy(), atol=1e-14 + 8 * EPS / share)


@given(st.integers(2, 96), exponents, exponents, seeds)
def test_tangent_is_unit_perpendicular_and_in_the_plane_of_state_and_draw(
    d: int, e: float, draw_e: float, seed: int
) -> None:
    h, g, n = vector(d, e, seed)
    g = g * 10.0**draw_e
    v = tangent(h, g)
    assert abs(math.hypot(*v.tolist()) - 1) <= 4 * EPS
    assert abs(math.fsum(a * b / n for a, b in zip(h.tolist(), v.tolist(), strict=True))) <= 16 * EPS
    # g = a·u + b·v with b > 0: what is left of g after taking out u and v is nothing.
    u, size = h.numpy() / n, float(np.linalg.norm(g))
    left = g.numpy() - (g.numpy() @ u) * u - (g.numpy() @ v.numpy()) * v.numpy()
    assert np.linalg.norm(left) <= 1e-13 * size
    assert g.numpy() @ v.numpy() > 0


def test_tangent_stays_perpendicular_to_a_draw_almost_parallel_to_the_state() -> None:
    h = normal(64, seed=1)
    across = normal(64, seed=2)
    for lean in (1e-3, 1e-6, 1e-9, 1e-11):
        v = tangent(h, h + lean * across)
        assert abs(float(h @ v)) / float(norms(h)) < 1e-14
        assert float(v @ tangent(h, across)) == pytest.approx(1, abs=1e-14 / lean)


def test_tangent_is_zero_where_the_draw_has_no_perpendicular_component() -> None:
    h = normal(4, 16)
    g = torch.stack([3.3 * h[0], torch.zeros(16), -1e-5 * h[2], normal(16, seed=5)])
    v = tangent(h, g)
    assert norms(v).tolist() == [0, 0, 0, pytest.approx(1)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_delta_zero_and_zero_vectors_come_back_bit_for_bit(dtype: torch.dtype) -> None:
    h = normal(6, 8, dtype=dtype)
    h[1] = 0
    h[2] = -0.0
    h[3, ::2] = -0.0
    v = tangent(h, normal(6, 8, seed=1))
    delta = torch.tensor([0, 0.5, 0.5, 0, 0, 0], dtype=torch.float64)
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    for moved in (magnitude(h, delta), magnitude(h, delta, -1), angular(h, delta, v), angular(h, 0, v)):
        assert moved.dtype == dtype
        assert torch.equal(moved.contiguous().view(bits), h.view(bits))


def test_the_zero_token_does_not_disturb_its_neighbours() -> None:
    h, g = normal(3, 8), normal(3, 8, seed=1)
    with_zero = h.clone()
    with_zero[1] = 0
    assert torch.equal(magnitude(with_zero, 0.3)[[0, 2]], magnitude(h, 0.3)[[0, 2]])
    turned, turned_with_zero = (angular(x, 0.3, tangent(x, g)) for x in (h, with_zero))
    assert torch.equal(turned_with_zero[[0, 2]], turned[[0, 2]])


def test_per_token_deltas_and_signs() -> None:
    h = normal(2, 5, 16)
    delta = torch.linspace(0.1, 1, 10, dtype=torch.float64).view(2, 5)
    sign = torch.tensor([[1, -1, 1, -1, 1], [-1, -1, 1, 1, -1]], dtype=torch.int8)
    moved = magnitude(h, delta, sign)
    turned = angular(h, delta, tangent(h, normal(2, 5, 16, seed=1)))
    for b in range(2):
        for t in range(5):
            asked = float(delta[b, t])
            n = math.hypot(*h[b, t].tolist())
            assert math.hypot(*moved[b, t].tolist()) == pytest.approx(n + int(sign[b, t]) * asked, rel=1e-13)
            assert math.dist(turned[b, t], h[b, t]) == pytest.approx(asked, rel=1e-12)


def test_width_one_and_two() -> None:
    one = torch.tensor([[2.0], [-3.0]])
    assert magnitude(one, 0.5).tolist() == [[2.5], [-3.5]]
    with pytest.raises(UsageError, match="width 1"):
        tangent(one, one)
    with pytest.raises(UsageError, match="width 1"):
        angular(one, 0.5, torch.zeros_like(one))
    # In the plane a chord of the radius turns by 60 degrees, to one side or the other.
    h = torch.tensor([3.0, 0.0], dtype=torch.float64)
    for side in (1.0, -1.0):
        moved = angular(h, 3.0, tangent(h, torch.tensor([0.7, side], dtype=torch.float64)))
        assert moved.tolist() == pytest.approx([1.5, side * 3 * math.sqrt(3) / 2], rel=1e-14)


def test_the_far_end_of_the_sphere_and_beyond() -> None:
    h = normal(8)
    n = float(norms(h))
    v = tangent(h, normal(8, seed=1))
    assert torch.allclose(angular(h, 2 * n, v), -h, rtol=0, atol=1e-14)
    assert angular(h, 2.01 * n, v).isnan().all()
    assert torch.equal(magnitude(h, n, -1), torch.zeros(8, dtype=torch.float64))


def test_non_contiguous_and_expanded_inputs() -> None:
    base, g = normal(16, 7, 3), normal(3, 7, 16, seed=1)
    view = base.permute(2, 1, 0)
    wide = normal(16).expand(3, 7, 16)
    for h in (view, wide, normal(3, 7, 32)[..., ::2]):
        dense = h.contiguous().clone()
        assert torch.allclose(norms(h), norms(dense), rtol=4 * EPS)
        assert torch.allclose(magnitude(h, 0.2), magnitude(dense, 0.2), rtol=4 * EPS)
        assert torch.allclose(angular(h, 0.2, tangent(h, g)), angular(dense, 0.2, tangent(dense, g)), atol=1e-15)
        assert torch.equal(h, dense)  # the input is left alone


def test_feasible_is_strict_and_leaves_zero_out() -> None:
    n = torch.tensor([0.0, 1.0, 1.0, 2.0, 0.0])
    assert feasible(n, 1.0).tolist() == [False, False, False, True, False]
    assert feasible(n, torch.tensor([0.0, 0.5, 1.0, 1.999, -1.0])).tolist() == [False, True, False, True, False]


@given(st.integers(1, 32), exponents, seeds)
def test_norms_and_distance_agree_with_math(d: int, e: float, seed: int) -> None:
    h, _, n = vector(d, e, seed)
    other, _, m = vector(d, e, seed + 7)
    assert float(norms(h)) == pytest.approx(n, rel=4 * EPS)
    assert float(distance(h, other)) == pytest.approx(math.dist(h, other), rel=8 * EPS)
    assert float(norm_change(h, other)) == pytest.approx(m / n - 1, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("exponent", [-300, -160, 160, 300])
def test_squares_neither_overflow_nor_underflow_in_float64(exponent: int) -> None:
    h = torch.tensor([3.0, 4.0], dtype=torch.float64) * 10.0**exponent
    assert float(norms(h)) == pytest.approx(5 * 10.0**exponent, rel=1e-15)
    moved = angular(h, 0.1 * norms(h), tangent(h, normal(2)))
    assert float(distance(h, moved)) == pytest.approx(0.5 * 10.0**exponent, rel=1e-13)


def test_a_device_without_float64_works_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "working_dtype", lambda device: torch.float32)
    for exponent in (-30, 0, 30):
        h = (normal(64) * 10.0**exponent).float()
        n = math.hypot(*h.tolist())
        assert norms(h).dtype == torch.float32
        assert float(norms(h)) == pytest.approx(n, rel=1e-6)
        moved = angular(h, 0.1 * n, tangent(h, normal(64, seed=1)))
        assert math.dist(moved, h) == pytest.approx(0.1 * n, rel=1e-5)
        assert math.hypot(*moved.tolist()) == pytest.approx(n, rel=1e-6)
        assert math.dist(magnitude(h, 0.1 * n), h) == pytest.approx(0.1 * n, rel=1e-5)


def test_norm_of_zero_and_not_finite_vectors() -> None:
    h = torch.tensor([[0.0, 0.0], [math.inf, 1.0], [math.nan, 1.0]], dtype=torch.float64)
    found = norms(h)
    assert float(found[0]) == 0
    assert not found[1:].isfinite().any()
    assert float(norm_change(h[0], h[0])) == 0


def test_gradients() -> None:
    h = normal(3, 5).requires_grad_()
    g = normal(3, 5, seed=1).requires_grad_()
    delta = torch.tensor([0.1, 0.4, 0.7], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(norms, (h,))
    assert torch.autograd.gradcheck(lambda a, b: magnitude(a, b, -1), (h, delta))
    assert torch.autograd.gradcheck(tangent, (h, g))
    assert torch.autograd.gradcheck(lambda a, b, c: angular(a, b, tangent(a, c)), (h, delta, g))


def test_gradients_at_zero_vectors_and_zero_delta_are_those_of_the_identity() -> None:
    h = normal(3, 4)
    h[0] = 0
    h.requires_grad_()
    delta = torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64)
    for moved in (magnitude(h, delta), angular(h, delta, tangent(h, normal(3, 4, seed=1)))):
        (grad,) = torch.autograd.grad(moved.sum(), h)
        assert torch.equal(grad[:2], torch.ones(2, 4, dtype=torch.float64))
        assert grad[2].isfinite().all()


def half_precision_states() -> dict[str, Tensor]:
    """One coordinate of 3000 among N(0, 20²), and 4096 coordinates of 1500, whose norm exceeds fp16's range."""
    peaked = 20 * normal(64)
    peaked[0] = 3000
    return {"peaked": peaked.half(), "flat": torch.full((4096,), 1500.0, dtype=torch.float16)}


@pytest.mark.parametrize("name", ["peaked", "flat"])
def test_float16_does_not_overflow_while_rescaling(name: str) -> None:
    h = half_precision_states()[name]
    n = math.hypot(*h.tolist())
    assert float(norms(h)) == pytest.approx(n, rel=1e-14)
    if name == "flat":
        assert n == 96000
        assert not torch.linalg.vector_norm(h).isfinite()  # the trap: the norm is beyond fp16
    for moved in (magnitude(h, 0.1 * n), magnitude(h, 0.1 * n, -1), angular(h, 0.1 * n, tangent(h, normal(*h.shape)))):
        assert moved.dtype == torch.float16
        assert moved.isfinite().all()
        assert math.dist(moved.double(), h.double()) == pytest.approx(0.1 * n, rel=1e-2)
    turned = angular(h, 0.1 * n, tangent(h, normal(*h.shape)))
    assert math.hypot(*turned.tolist()) == pytest.approx(n, rel=1e-3)


@pytest.mark.parametrize(("dtype", "share"), [(torch.float32, 1e-3), (torch.float16, 0.1), (torch.bfloat16, 0.5)])
def test_only_the_cast_rounds(dtype: torch.dtype, share: float) -> None:
    h = normal(4, 64, dtype=dtype)
    wide = h.double()
    delta = share * norms(h)
    v = tangent(h, normal(4, 64, seed=1))
    assert torch.equal(magnitude(h, delta), magnitude(wide, delta).to(dtype))
    assert torch.equal(angular(h, delta, v), angular(wide, delta, v).to(dtype))
