"""One layer's states of many sequences, displaced: policy, draw and distances in, states and what was realised out."""

import warnings
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from polarlens.errors import NumericalError, UsageError
from polarlens.perturbation.geometry import angular, distance, dot, feasible, magnitude, norm_change, norms, widened
from polarlens.perturbation.noise import Sequence, coins, gaussian
from polarlens.perturbation.planes import Reference, direction
from polarlens.perturbation.policy import ARMS, MATCHED, Arm, Policy

# The scale of the plane `additive` is found by this many bisections in [0, MAX_SCALE].
BISECTIONS = 20
MAX_SCALE = 2.0


@dataclass(frozen=True, eq=False)
class Displacement:
    """What `displace` did.

    state: (B, T, d), the dtype of the input. asked: (B, T), the distance asked of each token, 0 where left clean.
    realised: (B, T), measured after the cast. norm_change: (B, T), |h'|/|h| - 1 after the cast.
    left: (B, T) bool, tokens asked for whose delta was not below their norm: left clean, or perturbed all the same
    under `apply`. saturated: (B,) bool, a scale hit its bound, so the realised distance falls short.
    Numbers are in the working dtype: float64, float32 on devices without it.
    """

    state: Tensor
    asked: Tensor
    realised: Tensor
    norm_change: Tensor
    left: Tensor
    saturated: Tensor


def displace(
    h: Tensor,
    *,
    arm: Arm,
    policy: Policy,
    draw: Tensor,
    delta: Tensor,
    antithetic: int = 1,
    reference: Reference | None = None,
) -> Displacement:
    """Move the states h (B, T, d) by delta (B, T), in the units of h; 0 leaves a token clean, bit for bit.

    draw: standard normal (B, T, d) for the angular arm, signs (B, T) for the magnitude arm. antithetic: +1 or -1.
    reference: this layer's clean states, for the planes `covariance` and `data`.

    Tokens with delta >= norm stay clean, in both arms and whatever the sign, unless the policy says `apply`; zero
    vectors always do. Under matching `mean` (rotation only) one scale per sequence, over the tokens that move, makes
    the average distance the average asked: a common distance relative to the norm, or a common s under `additive`.

    Raises NumericalError naming the token when a value is not finite or the draw gives a token no direction.
    """
    n, delta, draw = norms(h), widened(delta.to(h.device)), draw.to(h.device)
    _require(delta >= 0, "delta is not a number >= 0")
    asking = delta > 0
    _require(n.isfinite() | ~asking, "the state to perturb is not finite")
    possible = feasible(n, delta)
    moves = asking & (n > 0) if policy.level("infeasible", arm) == "apply" else asking & possible
    asked = torch.where(moves, delta, 0.0)
    if arm == "magnitude":
        signs = _signs(policy, draw, antithetic)
        _require((signs != 0) | ~moves, "the draw holds no sign for a token that is to move")
        state, saturated = magnitude(h, asked, signs), torch.zeros_like(moves[:, 0])
    else:
        v = direction(policy.level("plane", arm), h, draw, reference)
        _require((norms(v.detach()) > 0) | ~moves, "the draw gives a token that is to move no direction")
        v = v if antithetic == 1 else -v
        chord, saturated = _chords(policy, h, n, v, asked, draw, antithetic)
        state = angular(h, chord, v)
    with torch.no_grad():
        realised, change = distance(h, state), norm_change(h, state)
        _require(realised.isfinite() | ~moves, f"the perturbed state overflows {h.dtype}")
        realised, change = torch.where(moves, realised, 0.0), torch.where(moves, change, 0.0)
    return Displacement(state, asked.detach(), realised, change, asking & ~possible, saturated)


def _require(good: Tensor, what: str) -> None:
    if not good.all():
        row, token = (~good).nonzero()[0].tolist()
        raise NumericalError(
            what, where=f"row {row}, token {token} of the batch", fix="Check the model's states; run in float32."
        )


def _signs(policy: Policy, draw: Tensor, antithetic: int) -> Tensor:
    level = policy.level("sign", "magnitude")
    if level == "random":
        return draw * antithetic
    if antithetic != 1:
        raise UsageError(
            f"all signs are '{level}', so that there is no antithetic member",
            where="sign",
            fix="Use the level 'random'.",
        )
    return torch.full_like(draw, 1 if level == "grow" else -1)


def _chords(
    policy: Policy, h: Tensor, n: Tensor, v: Tensor, asked: Tensor, draw: Tensor, antithetic: int
) -> tuple[Tensor, Tensor]:
    """How far each token turns, as a chord (B, T), and the sequences (B,) where a scale hit its bound."""
    moves = asked > 0
    mean = policy.level("matching", "angular") == "mean"
    if policy.level("plane", "angular") == "additive":
        size = norms(draw)
        along = antithetic * dot(widened(h), draw).squeeze(-1) / (n * size)
        across = antithetic * dot(v, draw).squeeze(-1) / size
        return _additive_chords(n, along, across, asked, mean)
    wanted = asked
    if mean:
        total = (n * moves).sum(-1, keepdim=True)
        wanted = n * moves * (asked.sum(-1, keepdim=True) / torch.where(total > 0, total, 1.0))
    return torch.minimum(wanted, 2 * n), (moves & (wanted > 2 * n)).any(-1)


def _additive_chords(n: Tensor, along: Tensor, across: Tensor, asked: Tensor, mean: bool) -> tuple[Tensor, Tensor]:
    """Chords from h = n·u to n·(u + s·w)/|u + s·w|, with s found per token, or per sequence when `mean`.

    along, across: the components of the unit vector w along u and perpendicular to it.
    """
    moves = asked > 0

    def chords(s: Tensor) -> Tensor:
        # The chord grows with s: u + s·w turns from u toward w.
        return torch.where(moves, 2 * n * torch.sin(torch.atan2(s * across, 1 + s * along) / 2), 0.0)

    def short(s: Tensor) -> Tensor:
        missing = asked - chords(s)
        return (missing.sum(-1, keepdim=True) if mean else missing) > 0

    low = torch.zeros_like(asked[:, :1] if mean else asked)
    high = torch.full_like(low, MAX_SCALE)
    saturated = short(high).any(-1)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        more = short(middle)
        low, high = torch.where(more, middle, low), torch.where(more, high, middle)
    return chords((low + high) / 2), saturated


def perturb(
    h: Tensor,
    *,
    arm: Arm,
    delta: float,
    delta_mode: Literal["absolute", "relative"] = "absolute",
    seed: int = 0,
    sign: Literal["random", "grow", "shrink"] = "random",
) -> Tensor:
    """Move every vector of an (..., d) tensor by the distance `delta`, changing its length or its direction alone.

    Parameters
    ----------
    arm: `magnitude` (the length changes) or `angular` (the direction, uniformly; the length is kept).
    delta: the Euclidean distance, in the units of h, or under `relative` as a share (below 1) of each vector's norm.
    seed: draws are a function of the seed, the arm and the vector's index in the flattened tensor.
    sign: of the magnitude arm.

    Vectors with delta >= norm come back unchanged, in both arms, and a warning counts them; zero vectors come back
    unchanged. The result has h's shape and dtype and is differentiable in h. Source: arXiv 2602.11169.

    Raises UsageError for bad arguments, NumericalError for vectors that are not finite.
    """
    if arm not in ARMS:
        raise UsageError(f"{arm!r} is not an arm", where="arm", fix=f"Choose one of {', '.join(ARMS)}.")
    if delta_mode not in ("absolute", "relative"):
        raise UsageError(f"{delta_mode!r} is not possible here", where="delta_mode", fix="Choose absolute or relative.")
    if not 0 <= delta < (1 if delta_mode == "relative" else float("inf")):
        raise UsageError(f"{delta} is out of range", where="delta", fix="Give a number >= 0, in relative mode below 1.")
    if not h.is_floating_point() or h.dim() == 0:
        raise UsageError(f"cannot perturb {h.dtype} of shape {tuple(h.shape)}", where="h", fix="Give floats (..., d).")
    policy = MATCHED.with_levels(sign=sign)
    states = h.reshape(1, -1, h.shape[-1])
    token = (Sequence(item="perturb", member=None, n_tokens=states.shape[1]),)
    draw = (
        coins(policy, arm, seed, 0, token)
        if arm == "magnitude"
        else gaussian(policy, arm, seed, 0, token, states.shape[-1])
    )
    n = norms(states)
    asked = torch.where(n > 0, delta * n if delta_mode == "relative" else torch.full_like(n, delta), 0.0)
    moved = displace(states, arm=arm, policy=policy, draw=torch.from_numpy(draw), delta=asked)
    if moved.left.any():
        warnings.warn(
            f"{int(moved.left.sum())} of {moved.left.numel()} vectors are left unperturbed: "
            f"delta = {delta} is not below their norm",
            stacklevel=2,
        )
    return moved.state.reshape(h.shape)
