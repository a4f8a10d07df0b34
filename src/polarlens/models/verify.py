"""The numerical check of a model's anatomy: random token ids in, identities between captured tensors out.

In every block the parts must satisfy x + a + m = y (or the post-norm form, see `Block`) and every norm must read and
feed what its role says. A site is available when its identity holds in all blocks; otherwise it is recorded with the
reason. Block outputs are what all measurements need: if they do not hold, the model is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from polarlens.models.anatomy import Block
from polarlens.models.hooks import Call
from polarlens.models.sites import (
    ATTENTION,
    MLP,
    PRE_ATTENTION_NORM,
    PRE_MLP_NORM,
    Site,
)

# Largest relative error of an identity, max over tokens of |left - right| / |right|.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}

Calls = Mapping[nn.Module, Sequence[Call]]
Finding = float | str  # the error of an identity that holds, or why the site is refused


class Unclear(Exception):
    """A captured value is missing; the message is the reason a site is refused with."""


def gap(left: Tensor, right: Tensor) -> float:
    """Largest relative distance over tokens, |left - right| / |right|, of (..., d) tensors that may be flattened."""
    if left.numel() != right.numel():
        return float("inf")
    right = right.detach().cpu().double().reshape(-1, right.shape[-1])
    left = left.detach().cpu().double().reshape(right.shape)
    size = right.norm(dim=-1).clamp_min(torch.finfo(torch.float64).tiny)
    return float(((left - right).norm(dim=-1) / size).max())


def only_call(calls: Calls, module: nn.Module | None, role: str) -> tuple[Tensor, Tensor]:
    """Input and output of the one call of a module; Unclear when it was not called exactly once with a state."""
    if module is None:
        raise Unclear(f"no {role} could be told apart in this family's blocks")
    made = calls.get(module, ())
    if len(made) != 1:
        raise Unclear(f"the {role} is called {len(made)} times in one forward pass")
    if made[0].input is None or made[0].output is None:
        raise Unclear(f"the {role} does not map a state to a state")
    return made[0].input, made[0].output


@dataclass(frozen=True)
class Findings:
    """What one block showed."""

    wiring: str
    sites: Mapping[str, Finding]


def examine(block: Block, calls: Calls, tolerance: float) -> Findings:
    """Test the identities of one block on what was captured in a forward pass (raises Unclear for the block itself)."""
    x, y = only_call(calls, block.module, "block")

    def holds(**identities: tuple[Tensor, Tensor]) -> Finding:
        errors = {name: gap(left, right) for name, (left, right) in identities.items()}
        worst = max(errors, key=lambda name: errors[name])
        if errors[worst] <= tolerance:
            return errors[worst]
        return f"{worst.replace('_', ' ')} is off by {errors[worst]:.1e} (relative, block {block.index})"

    def attempt(test: Callable[[], Finding]) -> Finding:
        try:
            return test()
        except Unclear as reason:
            return str(reason)

    try:
        a, m = _contributions(block, calls, x, tolerance)
        if block.norms_after_addition:
            read, z = only_call(calls, block.post_attention_norm, "norm of x + a")
            summed, normed = only_call(calls, block.post_mlp_norm, "norm of z + m")
            total = holds(input_of_first_norm=(x + a, read), input_of_second_norm=(z + m, summed), y=(normed, y))
        else:
            total = holds(y=(x + a + m, y))
        wiring = _wiring(block, calls, x, a, tolerance) if isinstance(total, float) else "unknown"
    except Unclear as reason:
        return Findings("unknown", dict.fromkeys((ATTENTION, MLP, PRE_ATTENTION_NORM, PRE_MLP_NORM), str(reason)))

    def before_attention() -> Finding:
        if block.pre_attention_norm is None:
            return "the attention reads the residual stream itself, there is no norm before it"
        read, normed = only_call(calls, block.pre_attention_norm, "pre-attention norm")
        attends, _ = only_call(calls, block.attention, "attention module")
        return holds(input_of_norm=(read, x), input_of_attention=(attends, normed))

    def before_mlp() -> Finding:
        if block.pre_mlp_norm is None:
            if wiring == "parallel":
                return "attention and MLP run in parallel behind one norm: it is the pre-attention norm"
            return "the MLP reads the residual stream itself, there is no norm before it"
        read, normed = only_call(calls, block.pre_mlp_norm, "pre-MLP norm")
        feeds, _ = only_call(calls, block.mlp_input, "MLP module")
        stream = {"parallel": x, "sequential": x + a, "sandwich": x + a}.get(wiring)
        if stream is None:
            return f"what the norm reads is neither x nor x + a (wiring {wiring})"
        return holds(input_of_norm=(read, stream), input_of_mlp=(feeds, normed))

    norms = {PRE_ATTENTION_NORM: attempt(before_attention), PRE_MLP_NORM: attempt(before_mlp)}
    return Findings(wiring, {ATTENTION: total, MLP: total, **norms})


def _contributions(block: Block, calls: Calls, x: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """What attention and MLP add to the stream, (B, T, d) each."""
    _, raw_a = only_call(calls, block.source(ATTENTION) if block.attention else None, "attention module")
    _, raw_m = only_call(calls, block.source(MLP) if block.mlp else None, "MLP module")
    if raw_a.numel() != x.numel() or raw_m.numel() != x.numel():
        raise Unclear("attention or MLP does not return a state of the stream's width")
    a = block.contribution(ATTENTION, raw_a, x)
    m = block.contribution(MLP, raw_m, x, a)
    # Where a module adds the residual itself, x + a + m = y says little: the residual must be among its arguments.
    if block.attention_adds_residual:
        _receives(calls, block.attention, x, tolerance)
    if block.mlp_adds_residual:
        _receives(calls, block.mlp, x + a, tolerance)
    return a, m


def _receives(calls: Calls, module: nn.Module | None, residual: Tensor, tolerance: float) -> None:
    """Unclear unless `residual` is among the further arguments of the one call of `module`."""
    call = calls[module][0] if module is not None else None
    given = [v for v in (*call.args[1:], *call.kwargs.values()) if isinstance(v, Tensor)] if call else []
    if not any(v.numel() == residual.numel() and gap(v, residual) <= tolerance for v in given):
        raise Unclear("a module adds something else than the residual stream to what it returns")


def _wiring(block: Block, calls: Calls, x: Tensor, a: Tensor, tolerance: float) -> str:
    """What the MLP's branch starts from tells sequential from parallel; the norms name the rest."""
    if block.norms_after_addition:
        return "post-norm"
    feeds, _ = only_call(calls, block.mlp_input, "MLP module")
    branch = feeds
    if block.pre_mlp_norm is not None:
        branch, normed = only_call(calls, block.pre_mlp_norm, "pre-MLP norm")
        if gap(feeds, normed) > tolerance:  # another norm's output goes there: what this one reads says nothing
            return "unknown"
    attends, _ = only_call(calls, block.attention, "attention module")
    shares_norm = block.pre_mlp_norm is None and gap(branch, attends) <= tolerance
    if gap(branch, x) <= tolerance or shares_norm:
        return "parallel"
    if gap(branch, x + a) > tolerance:
        return "unknown"
    if block.post_attention_norm is None:
        return "sequential"
    return "sandwich" if block.pre_attention_norm is not None else "sublayer-post-norm"


def merge(findings: Sequence[Findings]) -> tuple[str, dict[str, Site]]:
    """One wiring and one record per site for all blocks together."""
    wirings = {f.wiring for f in findings}
    wiring = wirings.pop() if len(wirings) == 1 else "unknown"
    formula = "norm(norm(x + a) + m) = y" if wiring == "post-norm" else "x + a + m = y"
    stream = "x" if wiring == "parallel" else "x + a"
    how = {
        ATTENTION: formula,
        MLP: formula,
        PRE_ATTENTION_NORM: "reads x, feeds the attention",
        PRE_MLP_NORM: f"reads {stream}, feeds the MLP",
    }
    sites = {}
    for name in how:
        refused = [f.sites[name] for f in findings if isinstance(f.sites[name], str)]
        errors = [error for f in findings if isinstance(error := f.sites[name], float)]
        sites[name] = Site(name, False, str(refused[0])) if refused else Site(name, True, how[name], max(errors))
    return wiring, sites
