"""The mathematics of the two arms on tensors: length and direction of hidden states, moved by a given distance.

For a state h in R^d with n = |h| > 0 and a distance delta:

    magnitude   h' = (1 + sign·delta/n) h
    angular     h' = (1 - q) h + n·sqrt(q(2 - q))·v,   q = delta²/(2n²), v unit and perpendicular to h

Both put |h' - h| = delta, the angular arm keeps the norm. n·sqrt(q(2 - q)) is computed as delta·sqrt(1 - q/2), the
same number. Norms, ratios and products are float64 (float32 on devices without it) and there is one cast at the end, so
that half-precision states neither overflow nor lose the ratio. Source of the arms: arXiv 2602.11169; of the q form: the
chord 2n·sin(angle/2), which unlike cos(angle) and sqrt(1 - cos²) does not cancel at small delta.
"""

import torch
from torch import Tensor

from polarlens.errors import UsageError


def working_dtype(device: torch.device) -> torch.dtype:
    """Float64, or float32 on a device that has no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def widened(x: Tensor) -> Tensor:
    """`x` in the working dtype of its device."""
    return x.to(working_dtype(x.device))


def dot(x: Tensor, y: Tensor) -> Tensor:
    """Inner products along the last axis, kept as an axis of width 1."""
    return (x * y).sum(-1, keepdim=True)


def norms(h: Tensor) -> Tensor:
    """Euclidean norms of (..., d) states: (...) in the working dtype; squares neither overflow nor underflow."""
    x = widened(h)
    if torch.finfo(h.dtype).max < torch.finfo(x.dtype).max ** 0.25:
        return torch.linalg.vector_norm(x, dim=-1)
    # Scaled by a power of two, which is exact; 2^bound itself must be finite.
    bound = 1000 if x.dtype == torch.float64 else 100
    exponent = torch.frexp(x.detach().abs().amax(-1, keepdim=True)).exponent.clamp(-bound, bound)
    scale = torch.ldexp(torch.ones_like(x[..., :1]), exponent)
    return torch.linalg.vector_norm(x / scale, dim=-1) * scale.squeeze(-1)


def feasible(n: Tensor, delta: float | Tensor) -> Tensor:
    """Whether a token of norm `n` takes part at distance `delta`, in both arms alike: delta < n and n > 0."""
    return (n > 0) & (delta < n)


def magnitude(h: Tensor, delta: float | Tensor, sign: int | Tensor = 1) -> Tensor:
    """(1 + sign·delta/|h|) h: the length changes by `delta`, the direction stays as long as sign·delta > -|h|.

    h: (..., d). delta: scalar or (...), >= 0, in the units of h. sign: +1 grows, -1 shrinks; scalar or (...).
    Tokens with delta = 0 and zero vectors come back bit for bit. Same shape and dtype as h.
    """
    n, asked = _sizes(h, delta)
    signs = torch.as_tensor(sign, device=h.device).unsqueeze(-1)
    x = widened(h)
    moved = x + (signs * asked / _positive(n)) * x
    return torch.where((asked > 0) & (n > 0), moved, x).to(h.dtype)


def tangent(h: Tensor, g: Tensor) -> Tensor:
    """The unit vector along the component of `g` perpendicular to `h`: (..., d) in the working dtype.

    Uniform on the unit sphere of h's orthogonal complement for Gaussian g. Zero where g has no such component (g = 0
    or g parallel to h up to rounding). Raises UsageError for d = 1, where nothing is perpendicular.
    """
    _require_two(h)
    u = widened(h) / _positive(norms(h)[..., None])
    g = widened(g)
    t = g - dot(u, g) * u
    t = t - dot(u, t) * u  # the first projection leaves a rounding error along u; twice is enough
    size = norms(t)[..., None]
    clear = size > 64 * torch.finfo(t.dtype).eps * norms(g)[..., None]
    return torch.where(clear, t / torch.where(clear, size, 1.0), 0.0)


def angular(h: Tensor, delta: float | Tensor, v: Tensor) -> Tensor:
    """Rotate `h` toward `v` along a chord of length `delta`; the norm is kept.

    h: (..., d). delta: scalar or (...), 0 <= delta <= 2|h|, in the units of h (NaN beyond: there is no such point).
    v: (..., d) unit and perpendicular to h, see `tangent`. Tokens with delta = 0 and zero vectors come back bit for
    bit. Same shape and dtype as h. Raises UsageError for d = 1.
    """
    _require_two(h)
    n, asked = _sizes(h, delta)
    x = widened(h)
    q = (asked / _positive(n)).square() / 2
    moved = x + (asked * (1 - q / 2).sqrt() * v - q * x)
    return torch.where((asked > 0) & (n > 0), moved, x).to(h.dtype)


def distance(h: Tensor, h2: Tensor) -> Tensor:
    """|h2 - h| along the last axis: (...) in the working dtype."""
    return norms(widened(h2) - widened(h))


def norm_change(h: Tensor, h2: Tensor) -> Tensor:
    """|h2|/|h| - 1 along the last axis: (...) in the working dtype; 0 for zero vectors."""
    n = norms(h)
    return torch.where(n > 0, norms(h2) / _positive(n) - 1, 0.0)


def _sizes(h: Tensor, delta: float | Tensor) -> tuple[Tensor, Tensor]:
    """Norms and distances with an axis of width 1 in place of d."""
    n = norms(h)[..., None]
    return n, torch.as_tensor(delta, dtype=n.dtype, device=n.device).unsqueeze(-1)


def _positive(n: Tensor) -> Tensor:
    """Norms with 0 replaced by 1, to divide by."""
    return torch.where(n > 0, n, 1.0)


def _require_two(h: Tensor) -> None:
    if h.shape[-1] < 2:
        raise UsageError(
            "a state of width 1 has no direction to turn to", where="arm angular", fix="Use the magnitude arm."
        )
