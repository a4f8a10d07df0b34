"""Scores at the positions that count: log-probability of the next token and KL to the clean distribution."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

# Rows of logits handled at once, so that temporaries stay in cache whatever the vocabulary.
CHUNK = 64


@contextmanager
def only_positions(head: nn.Module, index: Tensor) -> Iterator[None]:
    """Let the output embedding see only the positions `index` of the flattened (B·T) hidden states.

    The model's own code after the embedding (soft-capping, logit scale) then runs as ever; logits are (1, N, V).
    """

    def select(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden = args[0]
        return (hidden.reshape(-1, hidden.shape[-1]).index_select(0, index)[None], *args[1:])

    handle = head.register_forward_pre_hook(select)
    try:
        yield
    finally:
        handle.remove()


def log_probabilities(logits: Tensor) -> Tensor:
    """Log-softmax of (N, V) logits along the contiguous vocabulary axis, chunked; float32 at least."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    out = torch.empty(logits.shape, dtype=wide, device=logits.device)
    for part, target in zip(torch.split(logits, CHUNK), torch.split(out, CHUNK), strict=True):
        torch.log_softmax(part, dim=-1, dtype=wide, out=target)
    return out


def score(logits: Tensor, targets: Tensor, clean: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """Next-token negative log-likelihood and, given clean log-probabilities, KL(clean || these), both (N,) in nats.

    KL is summed as p·(exp(-d) - 1 + d), d = log p - log q: every term is >= 0 and the first-order terms, which add up
    to nothing, do not have to cancel in floating point. Equal distributions give exactly 0.
    """
    wide = torch.promote_types(logits.dtype, torch.float32)
    n = logits.shape[0]
    nll = torch.empty(n, dtype=torch.float64, device=logits.device)
    kl = None if clean is None else torch.empty_like(nll)
    for start in range(0, n, CHUNK):
        rows = slice(start, start + CHUNK)
        logq = torch.log_softmax(logits[rows], dim=-1, dtype=wide)
        nll[rows] = -logq.gather(-1, targets[rows, None]).squeeze(-1).double()
        if clean is not None and kl is not None:
            logp = clean[rows]
            gap = logp - logq
            if not gap.min() >= -80:  # exp overflows float32, or a token is impossible under both and the gap is NaN
                kl[rows] = _kl_of_extremes(logp.double(), logq.double())
                continue
            terms = torch.expm1(-gap).add_(gap)
            kl[rows] = terms.mul_(logp.exp()).sum(-1, dtype=torch.float64)
    return nll, kl


def _kl_of_extremes(logp: Tensor, logq: Tensor) -> Tensor:
    """KL in float64 where log-probabilities may be -inf: 0·log 0 = 0, and inf where only the second is impossible."""
    p = logp.exp()
    return torch.where(p > 0, p * (logp - logq), 0.0).sum(-1)
