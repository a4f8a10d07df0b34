"""Two forward passes written by hand in float64 from the papers' formulas: GPT-2 (LayerNorm) and Llama (RMSNorm).

They share no code with Transformers or with the engine; the perturbation is applied between blocks by formula.
"""

from collections.abc import Callable, Mapping

import numpy as np

Edit = Callable[[np.ndarray], np.ndarray]


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(heads, T, head_dim) causal attention."""
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones(scores.shape[-2:], dtype=bool)), scores, -np.inf)
    return _softmax(scores) @ v


def _heads(x: np.ndarray, n: int) -> np.ndarray:
    return x.reshape(x.shape[0], n, -1).transpose(1, 0, 2)


def _joined(x: np.ndarray) -> np.ndarray:
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


def _nll(logits: np.ndarray, ids: tuple[int, ...]) -> np.ndarray:
    logp = logits - logits.max(-1, keepdims=True)
    logp = logp - np.log(np.exp(logp).sum(-1, keepdims=True))
    return -logp[np.arange(len(ids) - 1), list(ids[1:])]


def gpt2_nll(
    w: Mapping[str, np.ndarray], ids: tuple[int, ...], *, layers: int, heads: int, edits: Mapping[int, Edit]
) -> np.ndarray:
    """Per-token nll of a GPT-2 with the weights `w` (float64), edits applied to block outputs."""

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def dense(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["transformer.wte.weight"][list(ids)] + w["transformer.wpe.weight"][: len(ids)]
    for n in range(layers):
        block = f"transformer.h.{n}"
        q, k, v = (
            _heads(part, heads) for part in np.split(dense(norm(x, f"{block}.ln_1"), f"{block}.attn.c_attn"), 3, -1)
        )
        x = x + dense(_joined(_attend(q, k, v)), f"{block}.attn.c_proj")
        m = dense(norm(x, f"{block}.ln_2"), f"{block}.mlp.c_fc")
        m = 0.5 * m * (1 + np.tanh(np.sqrt(2 / np.pi) * (m + 0.044715 * m**3)))
        x = x + dense(m, f"{block}.mlp.c_proj")
        x = edits[n](x) if n in edits else x
    return _nll(norm(x, "transformer.ln_f") @ w["lm_head.weight"].T, ids)


def llama_nll(
    w: Mapping[str, np.ndarray], ids: tuple[int, ...], *,
    layers: int, heads: int, kv_heads: int, eps: float, theta: float, edits: Mapping[int, Edit],
) -> np.ndarray:  # fmt: skip
    """Per-token nll of a Llama with the weights `w` (float64), edits applied to block outputs."""

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * w[f"{name}.weight"]

    def rotate(x: np.ndarray) -> np.ndarray:
        half = x.shape[-1] // 2
        angles = np.arange(x.shape[1])[:, None] * theta ** (-np.arange(half) / half)
        cos, sin = np.cos(angles), np.sin(angles)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = w["model.embed_tokens.weight"][list(ids)]
    for n in range(layers):
        block = f"model.layers.{n}"
        h = norm(x, f"{block}.input_layernorm")
        q, k, v = (
            _heads(h @ w[f"{block}.self_attn.{p}_proj.weight"].T, count)
            for p, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        )
        k, v = (np.repeat(t, heads // kv_heads, axis=0) for t in (rotate(k), v))
        x = x + _joined(_attend(rotate(q), k, v)) @ w[f"{block}.self_attn.o_proj.weight"].T
        h = norm(x, f"{block}.post_attention_layernorm")
        gate = h @ w[f"{block}.mlp.gate_proj.weight"].T
        x = (
            x
            + (gate / (1 + np.exp(-gate)) * (h @ w[f"{block}.mlp.up_proj.weight"].T))
            @ w[f"{block}.mlp.down_proj.weight"].T
        )
        x = edits[n](x) if n in edits else x
    return _nll(norm(x, "model.norm") @ w["lm_head.weight"].T, ids)
