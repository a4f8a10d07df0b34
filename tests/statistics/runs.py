"""Finished runs with planted damages, as a comparison reads them: summary, manifest and rows."""

from typing import Any

from synthetic_rows import POLICIES, Damage, sweep

from polarlens.statistics import summarise
from polarlens.statistics.across import RunFacts


def manifest(name: str, norm_kind: str = "layernorm", n_params: int = 46_176, **settings: Any) -> dict[str, Any]:
    """What a comparison reads of a manifest; `settings` replace those of the default run."""
    blocks = [{"block": k, "norm_median": 5.0 + k, "sink_share": 0.01, "top5_channel_energy": 0.4} for k in range(24)]
    return {
        "schema": 1,
        "model": {
            "name": name, "family": "gpt_neox", "norm_kind": norm_kind, "n_params": n_params, "n_layers": 24,
            "width": 32, "source": {"kind": "directory", "location": f"/models/{name}", "quantisation": None},
        },
        "tokenizer": {"sha256": "t0", "size": 300, "bos": {"token": "<s>", "id": 0, "origin": "tokenizer"}},
        "configuration": {"preset": settings.get("preset", "matched")},
        "settings": {
            "dtype": "float32", "bos": 0, "layers": "8-15", "delta_mode": "relative", "max_tokens": 64,
            "preset": "matched", **settings,
        },
        "policies": POLICIES[str(settings.get("preset", "matched"))],
        "data": {}, "failed_units": {}, "unigram_nll": None,
        "wanted": {"loss": {"layers": [list(range(8, 16))]}},
        "state_profile": {"task": "loss", "blocks": blocks},
    }  # fmt: skip


def facts(
    name: str,
    loss: Damage | None,
    drop: Damage | None = None,
    *,
    norm_kind: str = "layernorm",
    n_params: int = 46_176,
    preset: str = "matched",
    settings: dict[str, Any] | None = None,
    **more: Any,
) -> RunFacts:
    """A run with known damages; `more` goes to `synthetic_rows.sweep`."""
    rows = sweep(loss, drop, preset=preset, **more)
    about = manifest(name, norm_kind, n_params, preset=preset, **(settings or {}))
    summary = summarise(rows, model=name, preset=preset, policies=POLICIES[preset])
    return RunFacts(name, f"runs/{name}", summary, about, rows)
