"""What holds for the stack of blocks as a whole: their outputs, causality, the final norm, the attention function."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from polarlens.errors import ModelError
from polarlens.models.anatomy import Block
from polarlens.models.attention import attention_by, plain
from polarlens.models.sites import BLOCK_OUTPUT, FINAL_NORM, PATTERN, Site
from polarlens.models.verify import Calls, Unclear, gap, only_call

TOKENS, SHARED = 12, 7  # two rows of 12 ids whose first 7 are the same


def probe_ids(limit: int, avoid: Sequence[int], length: int) -> Tensor:
    """Random token ids (2, length) below `limit`, none of them in `avoid`; the rows share their first ids."""
    usable = torch.tensor([i for i in range(limit) if i not in set(avoid)])
    drawn = torch.randint(len(usable), (2, length), generator=torch.Generator().manual_seed(0))
    drawn[1, : min(SHARED, length - 1)] = drawn[0, : min(SHARED, length - 1)]
    drawn[1, -1] = (drawn[0, -1] + 1) % len(usable)
    return usable[drawn]


def check_chain(model: str, blocks: Sequence[Block], calls: Calls, width: int, tolerance: float) -> float:
    """Block outputs: each block runs once, returns (2, T, width), and the next one reads just that.

    Also that the model is causal: rows that share their first tokens agree there. Returns the largest error.
    """
    previous, worst = None, 0.0
    for block in blocks:
        where = f"{model}, block {block.index}"
        try:
            x, y = only_call(calls, block.module, "block")
        except Unclear as reason:
            raise ModelError(f"the block outputs cannot be verified: {reason}", where=where) from None
        if not bool(torch.isfinite(y).all()):
            raise ModelError("the block's output is not finite", where=where, fix="Load in float32.")
        if y.dim() != 3 or y.shape != x.shape or y.shape[-1] != width:
            raise ModelError(
                f"the block outputs cannot be verified: shape {tuple(y.shape)} for states of {width} channels",
                where=where,
            )
        if previous is not None:
            worst = max(worst, gap(x, previous))
            if not worst <= tolerance:
                raise ModelError(
                    "the block outputs cannot be verified: this block does not read what the one before it returns",
                    where=where,
                )
        shared = min(SHARED, y.shape[1] - 1)
        if not gap(y[1, :shared], y[0, :shared]) <= tolerance:
            raise ModelError(
                "the model is not causal: a token's state depends on later tokens",
                where=where,
                fix="Polarlens measures causal (decoder-only) language models.",
            )
        previous = y
    return worst


def block_output_site(error: float) -> Site:
    """The record of block outputs that passed `check_chain`."""
    return Site(BLOCK_OUTPUT, True, "each block reads what the one before returns; causal", error)


def final_norm_site(norm: nn.Module | None, head: nn.Module, last: nn.Module, calls: Calls, tolerance: float) -> Site:
    """The norm between the last block and the head."""
    if norm is None:
        return Site(FINAL_NORM, False, "there is no norm between the last block and the head")
    try:
        _, y = only_call(calls, last, "last block")
        read, normed = only_call(calls, norm, "final norm")
        feeds, _ = only_call(calls, head, "head")
    except Unclear as reason:
        return Site(FINAL_NORM, False, str(reason))
    error = max(gap(read, y), gap(normed, feeds))
    if not error <= tolerance:
        return Site(FINAL_NORM, False, f"it does not stand between the last block and the head (error {error:.1e})")
    return Site(FINAL_NORM, True, "reads the last block's output, feeds the head", error)


def pattern_site(
    hf: PreTrainedModel, run: Callable[[], Tensor], logits: Tensor, n_blocks: int, tolerance: float
) -> Site:
    """Whether attention can be computed by a function of ours: one call per block, the same logits."""
    calls = 0

    def counted(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        nonlocal calls
        calls += 1
        return plain(*args, **kwargs)

    try:
        with attention_by(hf, counted):
            again = run()
    except Exception as error:  # whatever a foreign attention module raises means that the site cannot be had
        return Site(PATTERN, False, f"attention cannot be computed by a registered function ({str(error)[:80]})")
    if calls != n_blocks:
        return Site(
            PATTERN, False, f"this family computes attention itself: {calls} of {n_blocks} blocks call the registry"
        )
    worst = gap(again, logits)
    if not worst <= 10 * tolerance:
        return Site(PATTERN, False, f"plain softmax attention does not reproduce the logits (error {worst:.1e})")
    return Site(PATTERN, True, "plain softmax through the registry reproduces the logits", worst)
