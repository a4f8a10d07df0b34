"""GPT-2 and Llama written by hand in float64, with every inner value recorded and any of them held at another run's.

They share no code with Transformers or with the engine. `held` maps (layer, name) to a value: `a`, `m` what attention
and MLP add, `n1`, `n2` the norms' outputs, `s1`, `s2`, `sf` the norms' statistics, `w` attention weights, `v` values.
"""

import numpy as np


class Run:
    """One sequence through the model; `at` holds the recorded values, `nll` is per token (T-1,)."""

    def __init__(self, weights, ids, *, llama, layers, heads, kv_heads, eps, theta=None, edits=None, held=None):
        self.w, self.heads, self.kv, self.eps, self.theta = weights, heads, kv_heads, eps, theta
        self.llama, self.held, self.at = llama, held or {}, {}
        x = weights["model.embed_tokens.weight"][list(ids)] if llama else self._embedded(ids)
        for n in range(layers):
            x = self._block(x, n)
            x = (edits or {}).get(n, lambda h: h)(x)
            self.at[n, "y"] = x
        final = "model.norm" if llama else "transformer.ln_f"
        logits = self._norm(x, final, (None, "sf")) @ weights["lm_head.weight"].T
        logits = logits - logits.max(-1, keepdims=True)
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        self.nll = -logp[np.arange(len(ids) - 1), list(ids[1:])]

    def keep(self, key, value):
        self.at[key] = self.held.get(key, value)
        return self.at[key]

    def _embedded(self, ids):
        return self.w["transformer.wte.weight"][list(ids)] + self.w["transformer.wpe.weight"][: len(ids)]

    def _norm(self, x, name, scale):
        x = x if self.llama else x - x.mean(-1, keepdims=True)
        s = self.keep(scale, np.sqrt((x**2).mean(-1, keepdims=True) + self.eps))
        return x / s * self.w[f"{name}.weight"] + (0 if self.llama else self.w[f"{name}.bias"])

    def _split(self, x, n):
        return x.reshape(len(x), n, -1).transpose(1, 0, 2)

    def _rotated(self, x):
        half = x.shape[-1] // 2
        angles = np.arange(x.shape[1])[:, None] * self.theta ** (-np.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1)

    def _attention(self, h, n):
        if self.llama:
            at = f"model.layers.{n}.self_attn"
            q, k, v = (
                self._split(h @ self.w[f"{at}.{p}_proj.weight"].T, c)
                for p, c in (("q", self.heads), ("k", self.kv), ("v", self.kv))
            )
            q, k = self._rotated(q), self._rotated(k)
            k, v = (np.repeat(t, self.heads // self.kv, axis=0) for t in (k, v))
        else:
            at = f"transformer.h.{n}.attn"
            joint = h @ self.w[f"{at}.c_attn.weight"] + self.w[f"{at}.c_attn.bias"]
            q, k, v = (self._split(part, self.heads) for part in np.split(joint, 3, -1))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        scores = np.where(np.tril(np.ones(scores.shape[-2:], dtype=bool)), scores, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = self.keep((n, "w"), e / e.sum(-1, keepdims=True)) @ self.keep((n, "v"), v)
        mixed = mixed.transpose(1, 0, 2).reshape(len(h), -1)
        if self.llama:
            return mixed @ self.w[f"{at}.o_proj.weight"].T
        return mixed @ self.w[f"{at}.c_proj.weight"] + self.w[f"{at}.c_proj.bias"]

    def _mlp(self, h, n):
        if self.llama:
            at = f"model.layers.{n}.mlp"
            gate = h @ self.w[f"{at}.gate_proj.weight"].T
            inner = gate / (1 + np.exp(-gate)) * (h @ self.w[f"{at}.up_proj.weight"].T)
            return inner @ self.w[f"{at}.down_proj.weight"].T
        at = f"transformer.h.{n}.mlp"
        m = h @ self.w[f"{at}.c_fc.weight"] + self.w[f"{at}.c_fc.bias"]
        m = 0.5 * m * (1 + np.tanh(np.sqrt(2 / np.pi) * (m + 0.044715 * m**3)))
        return m @ self.w[f"{at}.c_proj.weight"] + self.w[f"{at}.c_proj.bias"]

    def _block(self, x, n):
        names = ("input_layernorm", "post_attention_layernorm") if self.llama else ("ln_1", "ln_2")
        one, two = (f"{'model.layers' if self.llama else 'transformer.h'}.{n}.{name}" for name in names)
        x = x + self.keep((n, "a"), self._attention(self.keep((n, "n1"), self._norm(x, one, (n, "s1"))), n))
        return x + self.keep((n, "m"), self._mlp(self.keep((n, "n2"), self._norm(x, two, (n, "s2"))), n))


# What each repair holds, by the names above.
HELD = {
    "attention": ("a",),
    "mlp": ("m",),
    "attention+mlp": ("a", "m"),
    "norm": ("n1", "n2"),
    "attention-pattern": ("w",),
    "attention-values": ("v",),
    "attention-pattern+attention-values": ("w", "v"),
    "norm-scale": ("s1", "s2"),
    "final-norm-scale": ("sf",),
}


def settings(model) -> dict[str, object]:
    """What `Run` needs to know of a tiny GPT-2 or Llama."""
    weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
    c = model.config
    if c.model_type == "gpt2":
        return {"weights": weights, "llama": False, "layers": c.n_layer, "heads": c.n_head, "kv_heads": c.n_head,
                "eps": c.layer_norm_epsilon}  # fmt: skip
    return {"weights": weights, "llama": True, "layers": c.num_hidden_layers, "heads": c.num_attention_heads,
            "kv_heads": c.num_key_value_heads, "eps": c.rms_norm_eps,
            "theta": c.rope_parameters["rope_theta"]}  # fmt: skip


def repaired_run(model, ids, edits, name, layers) -> tuple[Run, Run, Run]:
    """(clean, perturbed, repaired) runs of one sequence."""
    options = settings(model)
    clean = Run(ids=ids, **options)
    where = (None,) if name == "final-norm-scale" else layers
    held = {(n, part): clean.at[n, part] for n in where for part in HELD[name]}
    return clean, Run(ids=ids, edits=edits, **options), Run(ids=ids, edits=edits, held=held, **options)
