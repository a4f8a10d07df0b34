"""One layer's states of many sequences, displaced: policy, draw and distances in, states and what was realised out."""

import warnings
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from polarlens.errors import NumericalError, UsageError
from polarlens.perturbation.geometry import cast, feasible, lengthened, norms, positive, rotated, widened
from polarlens.perturbation.noise import Sequence, coins, gaussian
from polarlens.perturbation.planes import Reference, component
from polarlens.perturbation.policy import ARMS, MATCHED, Arm, Policy

# The scale of the plane `additive` is found by this many bisections in [0, MAX_SCALE].
BISECTIONS = 20
MAX_SCALE = 2.0
BLOCK_TOKENS = 512  # a block of float64 states stays in cache


class TokenError(NumericalError):
    """A token that cannot be displaced; `row` and `token` are its indices in the batch."""

    def __init__(self, what: str, row: int, token: int) -> None:
        super().__init__(what, where=f"row {row}, token {token}", fix="Check the model's states; run in float32.")
        self.row, self.token = row, token


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
    draw, delta = draw.to(h.device), widened(delta.to(h.device))
    if arm == "magnitude":
        signs = _signs(policy, draw, antithetic)
        blocks = [_lengthen(h[rows], policy, signs[rows], delta[rows]) for rows in _blocks(h)]
    else:
        blocks = [_turn(h[rows], policy, draw[rows], delta[rows], antithetic, reference) for rows in _blocks(h)]
    *fields, able = (torch.cat(part) for part in zip(*blocks, strict=True))
    moved = Displacement(*fields)
    _require(delta >= 0, "the distance asked for is not a number >= 0")
    _require(able, "the draw gives no direction or sign to a token that is to move")
    _require(moved.norm_change.isfinite(), f"the state is not finite, or overflows {h.dtype} when perturbed")
    return moved


# The fields of a Displacement, and whether each token (B, T) that moves has something drawn.
_Block = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def _blocks(h: Tensor) -> list[slice]:
    """Whole sequences, few enough for float64 copies to stay in cache; all of them on an accelerator."""
    rows = max(1, BLOCK_TOKENS // max(1, h.shape[1])) if h.device.type == "cpu" else max(1, len(h))
    return [slice(start, start + rows) for start in range(0, max(1, len(h)), rows)]


def _lengthen(h: Tensor, policy: Policy, signs: Tensor, delta: Tensor) -> _Block:
    x, n = widened(h), norms(h)
    asked, left = _asked(policy, "magnitude", n, delta)
    moves = asked > 0
    state = cast(h, lengthened(x, n, signs * asked), moves)
    saturated = moves.new_zeros(len(h))
    return state, asked.detach(), *_realised(x, n, state, moves), left, saturated, (signs != 0) | ~moves


def _turn(
    h: Tensor, policy: Policy, draw: Tensor, delta: Tensor, antithetic: int, reference: Reference | None
) -> _Block:
    x, n = widened(h), norms(h)
    asked, left = _asked(policy, "angular", n, delta)
    moves = asked > 0
    plane, mean = policy.level("plane", "angular"), policy.level("matching", "angular") == "mean"
    t, size, along = component(plane, x, n, draw, reference)
    if plane == "additive":
        length = positive(torch.hypot(along, size))
        chord, saturated = _additive_chords(n, antithetic * along / length, size / length, asked, mean)
    else:
        chord, saturated = _chords(n, asked, mean)
    state = cast(h, rotated(x, n, antithetic * chord, t, size), moves)
    able = (size > 0) | ~moves | ~n.isfinite()
    return state, asked.detach(), *_realised(x, n, state, moves), left, saturated, able


def _asked(policy: Policy, arm: Arm, n: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    """The distance of each token that moves, 0 for the others; and the tokens asked for that are not feasible."""
    asking = delta > 0
    possible = feasible(n, delta) | ~n.isfinite()  # what is not finite is let through, to be noticed
    moves = asking & (n != 0) if policy.level("infeasible", arm) == "apply" else asking & possible
    return torch.where(moves, delta, 0.0), asking & ~possible


@torch.no_grad()
def _realised(x: Tensor, n: Tensor, state: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
    """Distance and relative norm change after the cast, 0 for tokens that stay."""
    realised, change = norms(widened(state) - x), norms(state) / positive(n) - 1
    return torch.where(moves, realised, 0.0), torch.where(moves, change, 0.0)


def _require(good: Tensor, what: str) -> None:
    if not good.all():
        row, token = (~good).nonzero()[0].tolist()
        raise TokenError(what, row, token)


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


def _chords(n: Tensor, asked: Tensor, mean: bool) -> tuple[Tensor, Tensor]:
    """How far each token turns, and the sequences where that is bounded by the diameter 2n."""
    wanted = asked
    if mean:
        moving = torch.where(asked > 0, n, 0.0)
        total = moving.sum(-1, keepdim=True)
        wanted = moving * (asked.sum(-1, keepdim=True) / positive(total))
    return torch.minimum(wanted, 2 * n), (wanted > 2 * n).any(-1)


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
    if not isinstance(h, Tensor):
        raise UsageError(f"the states are a {type(h).__name__}", where="h", fix="Give a torch tensor.")
    if arm not in ARMS:
        raise UsageError(f"{arm!r} is not an arm", where="arm", fix=f"Choose one of {', '.join(ARMS)}.")
    if delta_mode not in ("absolute", "relative"):
        raise UsageError(f"{delta_mode!r} is not possible here", where="delta_mode", fix="Choose absolute or relative.")
    if not 0 <= delta < (1 if delta_mode == "relative" else float("inf")):
        raise UsageError(f"{delta} is out of range", where="delta", fix="Give a number >= 0, in relative mode below 1.")
    if not h.is_floating_point() or h.dim() == 0:
        raise UsageError(f"cannot perturb {h.dtype} of shape {tuple(h.shape)}", where="h", fix="Give floats (..., d).")
    policy = MATCHED.with_levels(sign=sign)
    # Every vector is a sequence of one token to displace, and a token of one sequence to the noise.
    states = h.reshape(h.shape[:-1].numel(), 1, h.shape[-1])
    tokens = (Sequence(item="perturb", member=None, n_tokens=len(states)),)
    draw = (
        torch.from_numpy(coins(policy, arm, seed, 0, tokens)).reshape(-1, 1)
        if arm == "magnitude"
        else torch.from_numpy(gaussian(policy, arm, seed, 0, tokens, h.shape[-1])).reshape(states.shape)
    )
    n = norms(states)
    _require(n.isfinite(), "the vector is not finite")
    asked = torch.where(n > 0, delta * n if delta_mode == "relative" else torch.full_like(n, delta), 0.0)
    moved = displace(states, arm=arm, policy=policy, draw=draw, delta=asked)
    if moved.left.any():
        warnings.warn(
            f"{int(moved.left.sum())} of {moved.left.numel()} vectors are left unperturbed: "
            f"delta = {delta} is not below their norm",
            stacklevel=2,
        )
    return moved.state.reshape(h.shape)
