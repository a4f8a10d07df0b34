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
from polarlens.perturbation.geometry import norms, perpendicular, require_width, widened

# A bank row is another direction than the state when the sine of their angle is above this.
PARALLEL = 1e-4


@dataclass(frozen=True, eq=False)
class Reference:
    """Clean states of one layer from which the planes `covariance` and `data` draw.

    factor: (d, r) float32 with factor @ factor.T the states' covariance, sinks left out. bank: (m, d) float32, all
    states. Both on the device of the states. digest: SHA-256 of the states and the sink mask.
    """

    factor: Tensor
    bank: Tensor
    digest: str


def reference(states: Tensor, is_sink: Tensor) -> Reference:
    """Reference of one layer from clean states (m, d) of real tokens and their sink mask (m,).

    Raises UsageError when fewer than two tokens are not sinks, NumericalError when a state is not finite.
    """
    is_sink = is_sink.bool().cpu()
    bank = states.detach().cpu().float().contiguous()
    if not bank.isfinite().all():
        row = int((~bank.isfinite().all(-1)).nonzero()[0])
        raise NumericalError("a clean reference state is not finite", where=f"state {row}")
    used = bank.double()[~is_sink]
    if len(used) < 2:
        raise UsageError(f"{len(used)} clean states are too few for a covariance", where="plane", fix="Give more text.")
    # With X = QR the covariance is R'R/(m - 1): no squares of small singular values, and r = min(m, d).
    r = torch.linalg.qr(used - used.mean(0), mode="r").R / (len(used) - 1) ** 0.5
    r = torch.where(r.diagonal()[:, None] < 0, -r, r)  # the sign of a row is LAPACK's choice
    content = repr(tuple(bank.shape)).encode() + bank.numpy().tobytes() + is_sink.numpy().tobytes()
    return Reference(r.T.float().to(states.device), bank.to(states.device), hashlib.sha256(content).hexdigest())


def component(
    plane: str, x: Tensor, n: Tensor, draw: Tensor, reference: Reference | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The plane's vector perpendicular to states, not normalised: (t, |t|, component of what was drawn along x).

    x: states (..., d) in the working dtype, n: their norms. draw: (..., d) standard normal. |t| is 0 where what was
    drawn has no component perpendicular to x, or no row of the bank has.

    Raises UsageError when the plane needs a larger width or a reference.
    """
    require_width(x, 3 if plane == "centred" else 2, plane)
    if plane in ("orthogonal", "additive"):
        return perpendicular(x, n, draw)
    if plane == "centred":
        # What is perpendicular to the ones is so to h as soon as it is to h without its mean.
        x = _centred(x)
        return perpendicular(x, norms(x), _centred(widened(draw)))
    if reference is None:
        raise UsageError("needs clean reference states", where=f"plane {plane}", fix="Give displace a reference.")
    if plane == "covariance":
        factor = widened(reference.factor)  # float32 products may be TF32 on an accelerator
        return perpendicular(x, n, widened(draw[..., : factor.shape[1]]) @ factor.T)
    return _toward_bank(x, n, draw, reference.bank)


def _centred(x: Tensor) -> Tensor:
    x = x - x.mean(-1, keepdim=True)
    return x - x.mean(-1, keepdim=True)  # the first mean is rounded at the scale of x, not of what remains


def _toward_bank(x: Tensor, n: Tensor, draw: Tensor, bank: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The bank row that the draw picks, or the next row that is not parallel to x, without its component along x."""
    # The draw's first entry is uniform after the normal distribution function.
    row = (torch.special.ndtr(widened(draw[..., 0])) * len(bank)).long().clamp_max(len(bank) - 1)
    for _ in range(len(bank)):
        t, size, along = perpendicular(x, n, bank[row])
        parallel = size <= PARALLEL * along.abs()
        if not parallel.any():
            return t, size, along
        row = torch.where(parallel, (row + 1) % len(bank), row)
    return t, torch.where(parallel, 0.0, size), along
