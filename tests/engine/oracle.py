"""Independent oracles: a full forward pass with plain hooks, one sequence at a time, the perturbation written out."""

import numpy as np
import torch
from torch import nn

from polarlens.perturbation import Policy, Sequence, coins, gaussian


def moved(h: np.ndarray, arm: str, delta: float, noise: np.ndarray | int) -> np.ndarray:
    """One token's state moved by `delta`, straight from the definitions, float64."""
    n = np.sqrt((h**2).sum())
    u = h / n
    if arm == "magnitude":
        return (n + noise * delta) * u
    v = noise - (noise @ u) * u
    v = v - (v @ u) * u
    v = v / np.sqrt((v**2).sum())
    angle = 2 * np.arcsin(delta / (2 * n))
    return n * (np.cos(angle) * u + np.sin(angle) * v)


def noise_of(policy: Policy, arm: str, seed: int, layer: int, sequence: Sequence, width: int) -> np.ndarray:
    """The draw of one sequence alone: (T, width) Gaussians or (T,) coins."""
    if arm == "magnitude":
        return coins(policy, arm, seed, layer, [sequence])[0]
    return gaussian(policy, arm, seed, layer, [sequence], width)[0].astype(np.float64)


def plain_nll(
    model: nn.Module,
    blocks: nn.ModuleList,
    ids: tuple[int, ...],
    edit: "dict[int, object]",
) -> np.ndarray:
    """Next-token nll of one sequence (T-1,), scored in float64, with `edit[layer](h: (T, d))` hooked on the blocks."""
    handles = []
    for layer, function in edit.items():

        def hook(_module, _args, output, function=function):
            hidden = output[0] if isinstance(output, tuple) else output
            changed = torch.from_numpy(function(hidden[0].double().numpy())).to(hidden.dtype)[None]
            return (changed, *output[1:]) if isinstance(output, tuple) else changed

        handles.append(blocks[layer].register_forward_hook(hook))
    try:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()
    finally:
        for handle in handles:
            handle.remove()
    logp = torch.log_softmax(logits, -1)
    return -logp[torch.arange(len(ids) - 1), torch.tensor(ids[1:])].numpy()


def perturb_rows(arm: str, delta: float, mode: str, noise: np.ndarray, sign: int, part: np.ndarray):
    """An edit for `plain_nll`: every token in `part` moved by delta (relative: delta times its own norm)."""

    def edit(hidden: np.ndarray) -> np.ndarray:
        out = hidden.copy()
        for t in np.flatnonzero(part):
            asked = delta * np.sqrt((hidden[t] ** 2).sum()) if mode == "relative" else delta
            out[t] = moved(hidden[t], arm, asked, sign * noise[t])
        return out

    return edit
