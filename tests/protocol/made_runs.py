"""Data, options and comparisons for whole runs on tiny models."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import polarlens as pl
from polarlens.protocol.result import Run

TEXTS = [
    "The river runs through the old town.",
    "Some teachers have never seen these mountains, and they say so.",
    "A letter came.",
    "She said that it would rain, but the children went out.",
]
PAIRS = [("The cats sleep.", "The cats sleeps."), ("The letter was long.", "The letter were long.")]
KEYS = ["task", "dataset", "item", "arm", "layers", "delta", "seed", "sign", "policy_id", "positions"]
RAN_ON = {"seeds": 2, "delta": [0.4], "layers": "1-2", "quiet": True}


def write_data(folder: Path) -> dict[str, object]:
    """Four texts and two pairs, as options of a run."""
    (folder / "texts.txt").write_text("\n".join(TEXTS))
    (folder / "pairs.jsonl").write_text(
        "\n".join(json.dumps({"good": g, "bad": b, "phenomenon": "p"}) for g, b in PAIRS)
    )
    return {"text": str(folder / "texts.txt"), "pairs": [str(folder / "pairs.jsonl")]}


def assert_same(a: pd.DataFrame, b: pd.DataFrame, keys: list[str], *, tolerance: float = 1e-5) -> None:
    """The same rows whatever their order, each once, numbers to `tolerance`."""
    a, b = (one.sort_values(keys).reset_index(drop=True) for one in (a, b))
    assert not a.duplicated(keys).any()
    exact = [name for name in a if a[name].dtype != np.float64]
    pd.testing.assert_frame_equal(a[exact], b[exact])
    rest = [name for name in a if name not in exact]
    pd.testing.assert_frame_equal(a[rest], b[rest], rtol=tolerance, atol=tolerance)


def parts(folder: Path) -> dict[str, bytes]:
    """Every file of rows."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in (folder / "rows").rglob("*.parquet")}


def run(lm: object, **options: object) -> Run:
    """`pl.run` without the page and its figures, which take most of a small run's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("polarlens.report.write_report", lambda *_: None)
        return pl.run(lm, **options)
