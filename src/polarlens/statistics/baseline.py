"""The unperturbed model: loss of the texts, accuracy on the pairs, with intervals clustered like everything else."""

import numpy as np

from polarlens.statistics.damage import Damages
from polarlens.statistics.estimates import clean_moments
from polarlens.statistics.intervals import as_list, on_the_scale


def baseline(damages: Damages) -> dict[str, object]:
    """The `baseline` of the summary; a task that was not run is null."""
    return {"loss": _loss(damages), "pairs": _pairs(damages)}


def _loss(damages: Damages) -> dict[str, object] | None:
    items = damages.items[damages.items["task"] == "loss"]
    out: dict[str, object] = {}
    for measure in ("nll", "nll_item"):
        moments = clean_moments(damages, "loss", measure)
        if moments is None:
            return None
        estimate = moments.linear(1.0)
        out[measure] = {"mean": estimate.value, "ci95": as_list(estimate.interval())}
        if estimate.why:
            out["why"] = estimate.why
    return {**out, "n_items": len(items), "n_tokens": int(items["n_tokens"].sum())}


def _pairs(damages: Damages) -> dict[str, object] | None:
    items = damages.items[damages.items["task"] == "pairs"]
    moments = clean_moments(damages, "pairs", "accuracy")
    if moments is None:
        return None
    estimate = moments.linear(1.0)
    out: dict[str, object] = {
        "accuracy": estimate.value,
        "ci95": as_list(on_the_scale(estimate.interval())),
        "n_items": len(items),
        "ties": int(items["tie"].sum()),
        "unequal_length": int(items["unequal"].sum()),
        "unequal_length_share": float(np.mean(items["unequal"].to_numpy(np.float64))),
    }
    return {**out, "why": estimate.why} if estimate.why else out
