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


def lengthened(x: Tensor, n: Tensor, change: Tensor) -> Tensor:
    """Widened states x (..., d) of norm n (...), moved by the signed distance `change` (...) along themselves."""
    return x * (1 + change / positive(n))[..., None]


def rotated(x: Tensor, n: Tensor, chord: Tensor, t: Tensor, size: Tensor) -> Tensor:
    """Widened states x (..., d) of norm n (...), turned toward t/size by `chord` (...).

    t: (..., d) perpendicular to x, of norm size (...). NaN where chord > 2n: there is no such point.
    """
    q = (chord / positive(n)).square() / 2
    across = chord * (1 - q / 2).sqrt() / positive(size)
    return torch.addcmul((1 - q)[..., None] * x, across[..., None], t)


def perpendicular(x: Tensor, n: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The component of g (..., d) perpendicular to widened states x of norm n, its norm, and g's component along x.

    The norm is 0 where no perpendicular component stands clear of rounding: g = 0, or g parallel to x.
    """
    g, inverse = widened(g), 1 / positive(n)
    along = torch.linalg.vecdot(x, g) * inverse
    t = torch.addcmul(g, x, (-along * inverse)[..., None])
    # The first projection leaves a rounding error along x; twice is enough.
    rest = torch.linalg.vecdot(x, t) * inverse
    t = torch.addcmul(t, x, (-rest * inverse)[..., None])
    size = torch.linalg.vector_norm(t, dim=-1)
    return t, torch.where(size > 64 * torch.finfo(t.dtype).eps * along.abs(), size, 0.0), along


def magnitude(h: Tensor, delta: float | Tensor, sign: int | Tensor = 1) -> Tensor:
    """(1 + sign·delta/|h|) h: the length changes by `delta`, the direction stays as long as sign·delta > -|h|.

    h: (..., d). delta: scalar or (...), >= 0, in the units of h. sign: +1 grows, -1 shrinks; scalar or (...).
    Tokens with delta = 0 and zero vectors come back bit for bit. Same shape and dtype as h.
    """
    x, n = widened(h), norms(h)
    asked = _like(n, delta)
    return cast(h, lengthened(x, n, torch.as_tensor(sign, device=h.device) * asked), (asked > 0) & (n > 0))


def tangent(h: Tensor, g: Tensor) -> Tensor:
    """The unit vector along the component of `g` perpendicular to `h`: (..., d) in the working dtype.

    Uniform on the unit sphere of h's orthogonal complement for Gaussian g. Zero where g has no such component (g = 0
    or g parallel to h up to rounding). Raises UsageError for d = 1, where nothing is perpendicular.
    """
    require_width(h)
    t, size, _ = perpendicular(widened(h), norms(h), g)
    return torch.where((size > 0)[..., None], t / positive(size)[..., None], 0.0)


def angular(h: Tensor, delta: float | Tensor, v: Tensor) -> Tensor:
    """Rotate `h` toward `v` along a chord of length `delta`; the norm is kept.

    h: (..., d). delta: scalar or (...), 0 <= delta <= 2|h|, in the units of h (NaN beyond: there is no such point).
    v: (..., d) unit and perpendicular to h, see `tangent`. Tokens with delta = 0 and zero vectors come back bit for
    bit. Same shape and dtype as h. Raises UsageError for d = 1.
    """
    require_width(h)
    x, n, v = widened(h), norms(h), widened(v)
    asked = _like(n, delta)
    return cast(h, rotated(x, n, asked, v, torch.ones_like(n)), (asked > 0) & (n > 0))


def cast(h: Tensor, moved: Tensor, moves: Tensor) -> Tensor:
    """`moved` in the dtype of h where `moves` (...), h bit for bit elsewhere."""
    return torch.where(moves[..., None], moved.to(h.dtype), h)


def distance(h: Tensor, h2: Tensor) -> Tensor:
    """|h2 - h| along the last axis: (...) in the working dtype."""
    return norms(widened(h2) - widened(h))


def norm_change(h: Tensor, h2: Tensor) -> Tensor:
    """|h2|/|h| - 1 along the last axis: (...) in the working dtype; 0 for zero vectors."""
    n = norms(h)
    return torch.where(n > 0, norms(h2) / positive(n) - 1, 0.0)


def positive(n: Tensor) -> Tensor:
    """Norms with 0 replaced by 1, to divide by."""
    return torch.where(n > 0, n, 1.0)


def require_width(h: Tensor, least: int = 2, plane: str = "orthogonal") -> None:
    """UsageError when states are too narrow to have a direction to turn to."""
    if h.shape[-1] < least:
        raise UsageError(
            f"a state of width {h.shape[-1]} has no direction to turn to",
            where=f"arm angular, plane {plane}",
            fix=f"Give states of width {least} or more, or use the magnitude arm.",
        )


def _like(n: Tensor, delta: float | Tensor) -> Tensor:
    return torch.as_tensor(delta, dtype=n.dtype, device=n.device)
