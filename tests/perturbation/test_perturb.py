"""The public function on any (..., d) tensor."""

import math
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor

from polarlens.errors import NumericalError, UsageError
from polarlens.perturbation import ARMS, MATCHED, Arm, Sequence, coins, gaussian, norms, perturb, tangent


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 8), (2, 1, 3, 8), (0, 8), (2, 0, 8)])
@pytest.mark.parametrize("arm", ARMS)
def test_shapes_dtype_and_distance(arm: Arm, shape: tuple[int, ...]) -> None:
    h = normal(*shape).float()
    moved = perturb(h, arm=arm, delta=0.5)
    assert (moved.shape, moved.dtype) == (h.shape, h.dtype)
    for a, b in zip(h.reshape(-1, 8).tolist(), moved.reshape(-1, 8).tolist(), strict=True):
        assert math.dist(a, b) == pytest.approx(0.5, rel=1e-5)
        assert (math.hypot(*a) == pytest.approx(math.hypot(*b), rel=1e-6)) == (arm == "angular")


def test_draws_are_those_of_the_flat_index() -> None:
    h = normal(2, 3, 8)
    one = [Sequence("perturb", None, 6)]
    signs = coins(MATCHED, "magnitude", 4, 0, one)[0]
    z = torch.from_numpy(gaussian(MATCHED, "angular", 4, 0, one, 8)[0])
    longer = perturb(h, arm="magnitude", delta=0.25, delta_mode="relative", seed=4).view(6, 8)
    turned = perturb(h, arm="angular", delta=0.25, delta_mode="relative", seed=4).view(6, 8)
    for i, row in enumerate(h.view(6, 8)):
        assert torch.allclose(longer[i], (1 + 0.25 * int(signs[i])) * row, rtol=1e-14)
        v = tangent(row, z[i])
        expected = (1 - 0.25**2 / 2) * row + norms(row) * 0.25 * math.sqrt(1 - 0.25**2 / 4) * v
        assert torch.allclose(turned[i], expected, rtol=1e-12)
    assert torch.equal(perturb(h.view(6, 8), arm="angular", delta=0.25, delta_mode="relative", seed=4), turned)
    assert torch.equal(
        perturb(h[:1], arm="angular", delta=0.25, delta_mode="relative", seed=4), turned[:3].view(1, 3, 8)
    )


def test_seed_and_sign() -> None:
    h = normal(50, 8)
    for arm in ARMS:
        assert torch.equal(perturb(h, arm=arm, delta=0.1, seed=1), perturb(h, arm=arm, delta=0.1, seed=1))
        assert not torch.equal(perturb(h, arm=arm, delta=0.1, seed=1), perturb(h, arm=arm, delta=0.1, seed=2))
    for sign, expected in (("grow", 0.1), ("shrink", -0.1)):
        change = norms(perturb(h, arm="magnitude", delta=0.1, sign=sign)) - norms(h)  # type: ignore[arg-type]
        assert torch.allclose(change, torch.full_like(change, expected), rtol=1e-12)


def test_relative_distance_turns_a_sink_and_its_neighbours_by_one_angle() -> None:
    h = normal(16, 32)
    h = 3.0 * h / norms(h)[:, None]
    h[0] *= 1000
    absolute, relative = (
        norms(perturb(h, arm="angular", delta=d, delta_mode=mode) - h)  # type: ignore[arg-type]
        for d, mode in ((1.5, "absolute"), (0.1, "relative"))
    )
    assert torch.allclose(absolute, torch.full_like(absolute, 1.5), rtol=1e-11)
    assert torch.allclose(relative, torch.tensor([300.0] + 15 * [0.3]).double(), rtol=1e-6)


@pytest.mark.parametrize("arm", ARMS)
def test_what_is_out_of_reach_stays_and_is_counted(arm: Arm) -> None:
    h = torch.diag(torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64))
    with pytest.warns(UserWarning, match="2 of 4 vectors are left unperturbed"):
        moved = perturb(h, arm=arm, delta=2.0)
    assert torch.equal(moved[:3], h[:3])
    assert math.dist(moved[3], h[3]) == pytest.approx(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(perturb(h, arm=arm, delta=0), h)
        perturb(h, arm=arm, delta=0.9)  # the zero vector stays without a warning


def test_bad_arguments() -> None:
    h = normal(3, 4)
    bad: list[tuple[Tensor, dict[str, object], str]] = [
        (h, {"arm": "radial", "delta": 1}, "'radial' is not an arm"),
        (h, {"arm": "angular", "delta": -1.0}, "out of range"),
        (h, {"arm": "angular", "delta": math.nan}, "out of range"),
        (h, {"arm": "angular", "delta": math.inf}, "out of range"),
        (h, {"arm": "magnitude", "delta": 1.0, "delta_mode": "relative"}, "below 1"),
        (h, {"arm": "magnitude", "delta": 0.1, "delta_mode": "site"}, "'site'"),
        (h, {"arm": "magnitude", "delta": 0.1, "sign": "up"}, "'up'"),
        (h.long(), {"arm": "magnitude", "delta": 0.1}, "int64"),
        (torch.tensor(1.0), {"arm": "magnitude", "delta": 0.1}, r"shape \(\)"),
        (h[:, :1], {"arm": "angular", "delta": 0.1}, "width 1"),
    ]
    for x, arguments, message in bad:
        with pytest.raises(UsageError, match=message):
            perturb(x, **arguments)  # type: ignore[arg-type]
    for mode, value in (("absolute", math.nan), ("relative", math.inf), ("relative", math.nan)):
        broken = h.clone()
        broken[2, 1] = value
        with pytest.raises(NumericalError, match="row 2"):
            perturb(broken, arm="angular", delta=0.1, delta_mode=mode)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["absolute", "relative"])
@pytest.mark.parametrize("arm", ARMS)
def test_differentiable(arm: Arm, mode: str) -> None:
    h = normal(2, 3, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: perturb(x, arm=arm, delta=0.3, delta_mode=mode), (h,))  # type: ignore[arg-type]


def test_states_that_are_no_tensor_are_refused() -> None:
    with pytest.raises(UsageError, match="the states are a list"):
        perturb([1.0, 2.0], arm="angular", delta=0.1)
