"""Each plane level draws from the distribution it names."""

import hashlib
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from polarlens.errors import NumericalError, UsageError
from polarlens.perturbation import LEVELS, MATCHED, Reference, Sequence, gaussian, norms, reference, tangent
from polarlens.perturbation.planes import component


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def keyed(n: int, d: int, seed: int = 0) -> Tensor:
    """Draws as in a run: (n, d) float32, one stream."""
    return torch.from_numpy(gaussian(MATCHED, "angular", seed, 0, [Sequence("planes", None, n)], d)[0])


def directions(plane: str, h: Tensor, draw: Tensor, ref: Reference | None = None) -> Tensor:
    t, size, _ = component(plane, h.double(), norms(h), draw, ref)
    assert torch.allclose(norms(t), size, rtol=1e-14)
    return t / size[..., None]


def complement(*vectors: Tensor) -> np.ndarray:
    """Orthonormal columns that span everything perpendicular to the vectors."""
    a = np.stack([v.numpy() for v in vectors], axis=1)
    q, _ = np.linalg.qr(a, mode="complete")
    return q[:, a.shape[1] :]


def assert_uniform_on_sphere(points: np.ndarray) -> None:
    """Points (N, k) on the unit sphere of R^k: marginals, second and fourth moments of the uniform distribution."""
    n, k = points.shape
    assert np.allclose(np.linalg.norm(points, axis=1), 1, atol=1e-12)
    # A coordinate x of a uniform point has (x + 1)/2 ~ Beta((k - 1)/2, (k - 1)/2), along any axis.
    axes = np.concatenate([np.eye(k), np.full((1, k), k**-0.5)])
    for axis in axes:
        p = stats.kstest((points @ axis + 1) / 2, stats.beta((k - 1) / 2, (k - 1) / 2).cdf).pvalue
        assert p > 1e-3 / len(axes)
    second = np.einsum("ni,nj->ij", points, points) / n
    assert np.abs(second - np.eye(k) / k).max() < 5 / math.sqrt(n) / k
    assert np.mean(points[:, 0] ** 2 * points[:, 1] ** 2) == pytest.approx(1 / (k * (k + 2)), rel=0.05)


N = 20_000


@pytest.mark.parametrize("plane", ["orthogonal", "additive"])
def test_v_is_uniform_in_the_complement_of_the_state(plane: str) -> None:
    h = torch.tensor([5.0, -0.1, 0.02, 1.0, 0.3, 0.0], dtype=torch.float64)
    v = directions(plane, h.expand(N, -1), keyed(N, 6))
    basis = complement(h)
    assert np.abs((v @ h).numpy()).max() < 1e-14 * float(norms(h))
    assert_uniform_on_sphere(v.numpy() @ basis)


def test_the_uniformity_test_can_fail() -> None:
    skewed = normal(N, 5) * torch.tensor([1.0, 1, 1, 1, 1.1])
    with pytest.raises(AssertionError):
        assert_uniform_on_sphere((skewed / norms(skewed)[:, None]).numpy())


def test_in_two_dimensions_v_is_one_of_two_fair_sides() -> None:
    h = torch.tensor([0.6, -0.8], dtype=torch.float64)
    v = directions("orthogonal", h.expand(4000, -1), keyed(4000, 2))
    side = v @ torch.tensor([0.8, 0.6], dtype=torch.float64)
    assert torch.allclose(side.abs(), torch.ones_like(side), atol=1e-12)
    assert stats.binomtest(int((side > 0).sum()), 4000).pvalue > 1e-3


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e4])
def test_centred_is_uniform_in_the_complement_of_state_and_ones(mean: float) -> None:
    ones = torch.ones(7, dtype=torch.float64)
    h = torch.tensor([3.0, -0.1, 0.02, 1.0, 0.3, 0.0, -2.0], dtype=torch.float64) + mean
    v = directions("centred", h.expand(N, -1), keyed(N, 7))
    assert (v @ ones).abs().max() < 1e-14
    assert (v @ h).abs().max() < 1e-13 * float(norms(h))
    assert_uniform_on_sphere(v.numpy() @ complement(h, ones))


def test_centred_with_a_state_along_the_ones() -> None:
    h = torch.full((200, 5), 2.5, dtype=torch.float64)
    v = directions("centred", h, keyed(200, 5))
    assert v.sum(-1).abs().max() < 1e-14
    assert torch.allclose(norms(v), torch.ones(200, dtype=torch.float64))


def test_widths_that_leave_no_direction() -> None:
    two, one = normal(4, 2), normal(4, 1)
    with pytest.raises(UsageError, match="width 2"):
        component("centred", two, norms(two), two)
    for plane in LEVELS["plane"]:
        with pytest.raises(UsageError, match="width 1"):
            component(plane, one, norms(one), one)
    three = normal(4, 3)
    v = directions("centred", three, keyed(4, 3))
    expected = torch.linalg.cross(three, torch.ones(4, 3, dtype=torch.float64))
    cosines = (v * expected).sum(-1) / norms(expected)
    assert torch.allclose(cosines.abs(), torch.ones(4, dtype=torch.float64), atol=1e-13)


@pytest.mark.parametrize("plane", ["covariance", "data"])
def test_planes_of_the_states_need_a_reference(plane: str) -> None:
    h = normal(4, 6)
    with pytest.raises(UsageError, match="reference"):
        component(plane, h, norms(h), h)


def anisotropic(m: int, d: int, seed: int = 0) -> Tensor:
    scale = torch.logspace(0, 2, d, dtype=torch.float64)
    mix = torch.linalg.qr(normal(d, d, seed=99)).Q
    states: Tensor = (normal(m, d, seed=seed) * scale) @ mix + 7
    return states


@pytest.mark.parametrize(("m", "d"), [(300, 12), (9, 12), (2, 12)])
def test_the_factor_is_of_the_covariance_without_sinks(m: int, d: int) -> None:
    states = anisotropic(m + 3, d)
    is_sink = torch.zeros(m + 3, dtype=torch.bool)
    is_sink[[0, 2, m + 1]] = True
    states[is_sink] *= 1e4
    ref = reference(states.float(), is_sink)
    expected = np.cov(states[~is_sink].numpy(), rowvar=False)
    assert ref.factor.shape == (d, min(m, d))
    assert np.allclose(
        ref.factor.double().numpy() @ ref.factor.double().numpy().T, expected, atol=1e-5 * np.abs(expected).max()
    )
    assert (ref.factor.diagonal() >= 0).all()  # what makes it unique, so that a draw does not depend on LAPACK
    if m > d:
        scale = 1e-4 * np.sqrt(np.diag(expected))[:, None]
        assert (np.abs(ref.factor.double().numpy() - np.linalg.cholesky(expected)) < scale).all()
    assert torch.equal(ref.bank, states.float())


def test_covariance_draws_have_the_states_covariance() -> None:
    d = 5
    states = anisotropic(400, d)
    states[:, 4] = 0  # so that a state along the last axis takes nothing away from the draw
    ref = reference(states, torch.zeros(400, dtype=torch.bool))
    h = torch.zeros(N, d, dtype=torch.float64)
    h[:, 4] = 3
    t, _, _ = component("covariance", h, norms(h), keyed(N, d), ref)
    expected = np.cov(states.numpy(), rowvar=False)
    found = np.cov(t.numpy(), rowvar=False)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))[:4, :4]
    assert np.abs(t.numpy().mean(0)[:4] / np.sqrt(np.diag(expected)[:4])).max() < 5 / math.sqrt(N)
    assert np.abs((found - expected)[:4, :4] / scale).max() < 5 * math.sqrt(2 / N)


def test_low_rank_covariance_stays_in_the_states_span() -> None:
    states = normal(200, 2) @ normal(2, 8, seed=1)
    ref = reference(states[:50], torch.zeros(50, dtype=torch.bool))
    h = normal(30, 8, seed=2)
    v = directions("covariance", h, keyed(30, 8), ref)
    for token in range(30):
        span = torch.cat([states[:2], h[token : token + 1]])
        left = v[token] - torch.linalg.lstsq(span.T, v[token, :, None]).solution[:, 0] @ span
        assert float(norms(left)) < 1e-5
        assert abs(float(v[token] @ h[token])) < 1e-13


def test_reference_digest_names_the_bytes() -> None:
    states, none = normal(20, 4).float(), torch.zeros(20, dtype=torch.bool)
    base = reference(states, none)
    content = b"(20, 4)" + states.numpy().tobytes() + none.numpy().tobytes()
    assert base.digest == hashlib.sha256(content).hexdigest()
    changed, sink = states.clone(), none.clone()
    changed[3, 1] = torch.nextafter(changed[3, 1], torch.tensor(9.0))
    sink[0] = True
    digests = {base.digest, reference(changed, none).digest, reference(states, sink).digest}
    digests |= {reference(states.view(40, 2), torch.zeros(40, dtype=torch.bool)).digest}
    assert len(digests) == 4


def test_reference_refuses_what_has_no_covariance() -> None:
    sinks = torch.tensor([True, True, False])
    with pytest.raises(UsageError, match="1 clean states"):
        reference(normal(3, 4), sinks)
    broken = normal(3, 4)
    broken[1, 2] = math.nan
    with pytest.raises(NumericalError, match="state 1"):
        reference(broken, torch.zeros(3, dtype=torch.bool))


def bank_of(rows: Tensor) -> Reference:
    return Reference(torch.zeros(rows.shape[1], 1), rows.float(), "")


def picked(v: Tensor, h: Tensor, bank: Tensor) -> np.ndarray:
    """Which bank row each v points to: the one whose tangent it is."""
    toward = tangent(h[:, None].expand(-1, len(bank), -1), bank.double()[None].expand(len(h), -1, -1))
    return torch.einsum("nd,nmd->nm", v, toward).argmax(1).numpy()


def test_data_points_to_bank_rows_drawn_uniformly_by_the_key() -> None:
    bank, h = normal(10, 6), normal(1, 6, seed=1).expand(5000, -1)
    v = directions("data", h, keyed(5000, 6), bank_of(bank))
    rows = picked(v, h, bank.float())
    assert stats.chisquare(np.bincount(rows, minlength=10)).pvalue > 1e-3
    exact = tangent(h, bank.float()[rows])
    assert torch.allclose(v, exact, atol=1e-12)
    other = picked(directions("data", h, keyed(5000, 6, seed=1), bank_of(bank)), h, bank.float())
    assert abs(np.mean(rows == other) - 0.1) < 5 * math.sqrt(0.09 / 5000)


def test_data_goes_on_to_the_next_row_when_the_row_is_the_state_itself() -> None:
    bank, draw = normal(4, 6), keyed(200, 6)
    h = normal(1, 6, seed=1).expand(200, -1)
    rows = picked(directions("data", h, draw, bank_of(bank)), h, bank.float())
    own = int(rows[0])
    for same in (h[0], -2.5 * h[0], (1 + 1e-6) * h[0] + 1e-6 * normal(6, seed=3), torch.zeros(6, dtype=torch.float64)):
        blocked = bank.clone()
        blocked[own] = same
        blocked[(own + 1) % 4] = h[0]
        v = directions("data", h, draw, bank_of(blocked))
        expected = np.where(np.isin(rows, [own, (own + 1) % 4]), (own + 2) % 4, rows)
        assert np.array_equal(picked(v, h, blocked.float()), expected)


def test_data_without_any_other_direction_has_size_zero() -> None:
    h = normal(2, 6)
    _, size, _ = component("data", h, norms(h), keyed(2, 6), bank_of(torch.stack([h[0], 3 * h[0], 0 * h[0]])))
    assert float(size[0]) == 0
    assert float(size[1]) > 0
