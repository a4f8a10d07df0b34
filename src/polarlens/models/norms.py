"""What kind of norm a module is, by behaviour: class names say nothing for remote code."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from polarlens.perturbation.geometry import widened

LARGE, SMALL = 2.0**8, 2.0**-10  # scales of a state at which a norm's epsilon does not, and does, tell


def kind_of(norm: nn.Module, width: int, like: Tensor) -> str:
    """`layernorm`, `rmsnorm` or `unknown`, from the module's answers to random states of `width` channels.

    A norm does not see the length of its input: doubling it changes nothing. A layer norm does not see a constant
    added to all channels either, an RMS norm does. `like` gives the device and dtype.
    """
    generator = torch.Generator().manual_seed(0)
    states = torch.randn((1, 8, width), generator=generator).to(like)
    try:
        with torch.no_grad():
            plain, doubled, shifted = (_float(norm(s)) for s in (states, 2 * states, states + 1))
    except Exception:  # a module that wants more than a state is not a norm of the stream
        return "unknown"
    if plain.shape != states.shape or not bool(torch.isfinite(plain).all()):
        return "unknown"
    # In float32 the two cases are 1e-6 and 0.5 apart; the band between leaves room for bfloat16.
    if _change(plain, doubled) > 0.02:
        return "unknown"
    change = _change(plain, shifted)
    return "layernorm" if change < 0.05 else "rmsnorm" if change > 0.2 else "unknown"


def common_kind(norms: Iterable[nn.Module], width: int, like: Tensor) -> str:
    """The one kind that all `norms` have, else `unknown`."""
    kinds = {kind_of(norm, width, like) for norm in norms}
    return kinds.pop() if len(kinds) == 1 else "unknown"


def statistic(x: Tensor, kind: str, epsilon: float = 0.0) -> Tensor:
    """What a norm divides its input by, in the working dtype: (..., d) -> (...).

    `layernorm`: sqrt(var + epsilon), `rmsnorm`: sqrt(mean square + epsilon).
    """
    x = widened(x)
    if kind == "layernorm":
        x = x - x.mean(dim=-1, keepdim=True)
    return (x.square().mean(dim=-1) + epsilon).sqrt()


def constants_of(norm: nn.Module, width: int, like: Tensor) -> tuple[float, Tensor]:
    """(epsilon, bias (width,)) of a norm by its behaviour; families name them differently, or not at all (OLMo).

    But for the bias a norm is an odd function, and epsilon shortens its answer to a small state:
    |n(s p) - b| / |n(p) - b| = s / sqrt(s^2 + epsilon) for p of statistic 1 and no mean. Calls `forward`, past all
    hooks. `like` gives the device and dtype.
    """
    generator = torch.Generator().manual_seed(0)
    states = torch.randn((8, width), generator=generator, dtype=torch.float64)
    states = states - states.mean(dim=-1, keepdim=True)
    states = (states / states.square().mean(dim=-1, keepdim=True).sqrt())[None]

    def answers(scale: float) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            plus, minus = (widened(norm.forward((sign * scale * states).to(like))) for sign in (1.0, -1.0))
        return (plus - minus) / 2, (plus + minus) / 2

    large, bias = answers(LARGE)
    small, _ = answers(SMALL)
    shorter = float((small * large).sum() / (large * large).sum())
    return max(SMALL**2 * (shorter**-2 - 1), 0.0), bias.mean(dim=(0, 1)).to(like)


def _float(output: object) -> Tensor:
    if not isinstance(output, Tensor):
        raise TypeError("a norm returns a tensor")
    return output.double() if output.device.type == "cpu" else output.float()


def _change(a: Tensor, b: Tensor) -> float:
    # Relative to the answer without what stays the same for every input (the bias).
    scale = (a - a.mean(dim=-2, keepdim=True)).norm()
    return float((a - b).norm() / scale) if scale > 0 else float("inf")
