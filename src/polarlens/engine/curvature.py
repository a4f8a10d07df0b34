"""The small-delta limit of both arms by calculus: second derivatives of the loss in one block's output.

With g and H the gradient and Hessian of an item's summed next-token nll in the output of the perturbed block, u the
direction of a token and w its distance per unit of delta (its norm under `relative`, 1 under `absolute`, the layer's
median under `site`), the antithetic damages of the sweep's draws (signs s, directions v) are

    magnitude   delta²/2 · xi'H xi,                               xi_i = w_i s_i u_i
    angular     delta²/2 · [xi'H xi - sum w_i² u_i'g_i/n_i],      xi_i = w_i v_i          + O(delta^4)

and their means over draws have sum w_i² u_i'H_ii u_i and sum w_i² (tr H_ii - u_i'H_ii u_i)/(d - 1) for xi'H xi. So the
sweep's own draws are Hutchinson's probes, and each costs a Hessian-vector product. Attention runs in plain operations:
fused kernels have no second derivative.

With rectified activations the loss has kinks, whose part of the damage at any distance that crosses some is not in H:
there the limit holds only below the distance to the nearest kink (`kinked`).
"""

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from polarlens.engine.batching import Batch
from polarlens.engine.conditions import Protocol, eligible
from polarlens.engine.scoring import only_positions
from polarlens.engine.suffix import captured, hidden_of, started_at
from polarlens.errors import NumericalError, SiteError
from polarlens.models.hooks import with_first
from polarlens.perturbation import Policy, coins, gaussian, norms, tangent
from polarlens.perturbation.geometry import positive, widened

if TYPE_CHECKING:
    from polarlens.models import LanguageModel

Array = np.ndarray


@dataclass(frozen=True)
class Curvature:
    """Second derivatives of each row's summed nll at one block, in nats per delta², float64.

    radial, tangential: (P, B), xi'H xi of each probe, along the states and perpendicular to them.
    gradient: (B,), sum of w_i² u_i'g_i/n_i. nll: (B,), the clean loss. tokens: (B,), tokens that take part.
    A row's damages per delta² are radial/2 (magnitude) and (tangential - gradient)/2 (angular).
    """

    radial: Array
    tangential: Array
    gradient: Array
    nll: Array
    tokens: Array


def curvatures(
    lm: "LanguageModel", protocol: Protocol, batch: Batch, *, policy: Policy, positions: str, probes: Many[int]
) -> dict[int, Curvature]:
    """Layer -> the curvature at each layer of the protocol, perturbed alone, over the tokens that `positions` selects.

    policy: how draws are keyed; the plane is `orthogonal` whatever it says. probes: the seeds of the draws, one probe
    each. Two Hessian-vector products per layer and probe, for all rows of the batch at once.

    Raises SiteError when the loss cannot be differentiated twice, NumericalError when a derivative is not finite.
    """
    outputs: dict[int, Any] = {}

    def keep(layer: int, output: Any) -> None:
        # Cloned, since some blocks write into their output; nothing reads a tuple's other elements.
        hidden = hidden_of(output).clone()
        outputs[layer] = (hidden, *[None] * (len(output) - 1)) if isinstance(output, tuple) else hidden

    with sdpa_kernel(SDPBackend.MATH):
        with captured(lm.blocks, protocol.layers, keep), torch.no_grad():
            _nll(lm, batch)
        found = {}
        for layer in protocol.layers:
            try:
                found[layer] = _at_layer(lm, protocol, batch, layer, outputs.pop(layer), policy, positions, probes)
            except RuntimeError as error:
                if "derivative" not in str(error) and "does not require grad" not in str(error):
                    raise
                what = f"the loss cannot be differentiated twice ({str(error)[:80]})"
                raise SiteError(what, where=f"{lm.name}, block {layer}") from error
    return found


def kinked(lm: "LanguageModel") -> bool:
    """Whether the model has rectified activations, so that second derivatives miss what its kinks cost."""
    return any(isinstance(module, (nn.ReLU, nn.LeakyReLU, nn.ReLU6)) for module in lm.hf.modules())


def _nll(lm: "LanguageModel", batch: Batch) -> Tensor:
    """(N,) next-token nll at the scored positions, differentiable."""
    ids, mask, index = (t.to(lm.device) for t in (batch.ids, batch.mask, batch.scored))
    with only_positions(lm.head, index):
        logits = lm.hf(input_ids=ids, attention_mask=mask, use_cache=False).logits
    logits = logits.reshape(-1, logits.shape[-1])
    logp = torch.log_softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    return -logp.gather(-1, batch.targets.to(logits.device)[:, None]).squeeze(-1)


def _at_layer(
    lm: "LanguageModel", protocol: Protocol, batch: Batch, layer: int, output: Any,
    policy: Policy, positions: str, probes: Many[int],
) -> Curvature:  # fmt: skip
    x = hidden_of(output).requires_grad_(True)
    with torch.enable_grad(), started_at(lm.blocks, layer, with_first(output, x)):
        nll = _nll(lm, batch)
        (g,) = torch.autograd.grad(nll.sum(), x, create_graph=True)  # rows do not meet: each has its own gradient
    n = norms(x.detach())
    u = widened(x.detach()) / positive(n)[..., None]
    takes_part = eligible(batch, positions, {layer: n})
    reach = torch.where(takes_part.to(n.device), protocol.asked(1.0, layer, n), 0.0)

    def second(direction: Tensor) -> Array:
        """(B,) second derivative of each row's loss along w_i times a unit vector per token."""
        xi = reach[..., None] * direction
        (product,) = torch.autograd.grad((g * xi.to(g.dtype)).sum(), x, retain_graph=True)
        return _per_row(xi * widened(product), lm, batch, layer)

    radial, tangential = [], []
    for seed in probes:
        signs = coins(policy, "magnitude", seed, layer, batch.sequences, length=batch.shape[1])
        draw = gaussian(policy, "angular", seed, layer, batch.sequences, lm.width, length=batch.shape[1])
        radial.append(second(torch.from_numpy(signs).to(n)[..., None] * u))
        tangential.append(second(tangent(x.detach(), torch.from_numpy(draw).to(n.device))))
    slope = (reach.square() / positive(n))[..., None] * u * widened(g.detach())
    return Curvature(
        np.stack(radial),
        np.stack(tangential),
        _per_row(slope, lm, batch, layer),
        batch.sum_rows(nll.detach()).numpy(),
        takes_part.sum(-1).numpy(),
    )


def _per_row(terms: Tensor, lm: "LanguageModel", batch: Batch, layer: int) -> Array:
    """Sums of (B, T, d) terms over each row, (B,) float64."""
    sums = terms.sum((-2, -1)).double().cpu().numpy()
    if not np.isfinite(sums).all():
        item = batch.sequences[int(np.flatnonzero(~np.isfinite(sums))[0])].item
        where = f"{lm.name}, block {layer}, item {item}"
        raise NumericalError("a second derivative of the loss is not finite", where=where, fix="Run in float32.")
    return sums
