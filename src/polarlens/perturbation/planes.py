"""How the direction v of the angular arm is drawn: from a Gaussian draw to a unit vector perpendicular to the state.

    orthogonal   isotropic in the complement of u = h/|h|
    covariance   from the covariance of the clean states of the layer, then projected
    data         toward the clean state of another token, drawn from a fixed bank
    centred      isotropic in the complement of u and the all-ones vector, which LayerNorm removes anyway
    additive     u + s·w, w a unit Gaussian direction: v is w's component perpendicular to u

All read the same Gaussian draw, so a level changes how noise is used, never which noise is drawn.
"""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from polarlens.errors import NumericalError, UsageError
from polarlens.perturbation.geometry import dot, norms, tangent, widened

# A bank row is another direction than the state when the sine of their angle is above this.
PARALLEL = 1e-4


@dataclass(frozen=True, eq=False)
class Reference:
    """Clean states of one layer from which the planes `covariance` and `data` draw.

    factor: (d, r) float32 with factor @ factor.T the states' covariance, sinks left out. bank: (m, d) float32, all
    states. digest: SHA-256 of the states and the sink mask.
    """

    factor: Tensor
    bank: Tensor
    digest: str


def reference(states: Tensor, is_sink: Tensor) -> Reference:
    """Reference of one layer from clean states (m, d) of real tokens and their sink mask (m,).

    Raises UsageError when fewer than two tokens are not sinks, NumericalError when a state is not finite.
    """
    states, is_sink = states.detach().cpu(), is_sink.cpu()
    bank = states.float().contiguous()
    if not bank.isfinite().all():
        row = int((~bank.isfinite().all(-1)).nonzero()[0])
        raise NumericalError("a clean reference state is not finite", where=f"state {row}")
    used = bank.double()[~is_sink]
    if len(used) < 2:
        raise UsageError(f"{len(used)} clean states are too few for a covariance", where="plane", fix="Give more text.")
    # With X = QR the covariance is R'R/(m - 1): no squares of small singular values, and r = min(m, d).
    r = torch.linalg.qr(used - used.mean(0), mode="r").R / (len(used) - 1) ** 0.5
    r = torch.where(r.diagonal()[:, None] < 0, -r, r)  # the sign of a row is LAPACK's choice
    content = repr(tuple(bank.shape)).encode() + bank.numpy().tobytes() + is_sink.bool().numpy().tobytes()
    return Reference(r.T.float().contiguous(), bank, hashlib.sha256(content).hexdigest())


def direction(plane: str, h: Tensor, draw: Tensor, reference: Reference | None = None) -> Tensor:
    """v for states (..., d) under a plane level: unit, perpendicular to h, (..., d) in the working dtype.

    draw: (..., d) standard normal. Zero where the draw has no component perpendicular to h, or no row of the bank has.
    Raises UsageError when the plane needs a larger width or a reference.
    """
    if plane == "centred":
        if h.shape[-1] < 3:
            raise UsageError(
                f"a state of width {h.shape[-1]} has no direction perpendicular to itself and the all-ones vector",
                where="plane centred",
                fix="Choose the plane 'orthogonal'.",
            )
        # What is perpendicular to the ones is so to h as soon as it is to h without its mean.
        return tangent(_centred(h), _centred(draw))
    if plane in ("orthogonal", "additive"):
        return tangent(h, draw)
    if reference is None:
        raise UsageError("needs clean reference states", where=f"plane {plane}", fix="Give displace a reference.")
    if plane == "covariance":
        factor = reference.factor.to(h.device)
        return tangent(h, draw[..., : factor.shape[1]].to(factor.dtype) @ factor.T)
    return _toward_bank(h, draw, reference.bank.to(h.device))


def _centred(x: Tensor) -> Tensor:
    x = widened(x)
    x = x - x.mean(-1, keepdim=True)
    return x - x.mean(-1, keepdim=True)  # the first mean is rounded at the scale of x, not of what remains


def _toward_bank(h: Tensor, draw: Tensor, bank: Tensor) -> Tensor:
    """v toward the bank row that the draw picks, or the next row that is not parallel to h; zero when all rows are."""
    # The draw's first entry is uniform after the normal distribution function.
    row = (torch.special.ndtr(widened(draw[..., 0])) * len(bank)).long().clamp_max(len(bank) - 1)
    parallel = _parallel(h, bank[row])
    for _ in range(len(bank) - 1):
        if not parallel.any():
            break
        row = torch.where(parallel, (row + 1) % len(bank), row)
        parallel = parallel.masked_scatter(parallel, _parallel(h[parallel], bank[row[parallel]]))
    return torch.where(parallel[..., None], 0.0, tangent(h, bank[row]))


def _parallel(h: Tensor, other: Tensor) -> Tensor:
    """Whether the line through `other` is too close to h's to name a plane with it: (...) bool; true for other = 0."""
    u = widened(h.detach())
    u = u / norms(u).clamp_min(torch.finfo(u.dtype).tiny)[..., None]
    other = widened(other)
    return norms(other - dot(u, other) * u) <= PARALLEL * norms(other)
