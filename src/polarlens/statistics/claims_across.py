"""The published claims that no single model can answer: C8 (norm kinds) and C9 (scale), from several runs' summaries.

Both say "every model", so each model's order is tested at its own 95 % interval (0.025 on either side): a statement
that must hold in all of them needs no correction (intersection-union).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polarlens.perturbation.policy import POSITIONS
from polarlens.statistics.claims import CLAIMS

LARGE = 1e9  # parameters
PAPER_LARGE = 1.4e9  # the published larger model, whose ratio stands beside the measured one


@dataclass(frozen=True)
class ModelFacts:
    """What one run says about its model.

    norm_kind: `layernorm`, `rmsnorm` or `unknown`. n_params: parameters, None where not known.
    contrasts, claims: as in the run's `summary.json`.
    loss_measure: `nll`, or `nll_item` under the presets `paper` and `notebook`. delta_mode: the unit of its deltas.
    """

    model: str
    norm_kind: str
    n_params: int | None
    contrasts: Sequence[Mapping[str, Any]]
    claims: Sequence[Mapping[str, Any]]
    loss_measure: str = "nll"
    delta_mode: str | None = None


def loss_differences(facts: ModelFacts) -> dict[float, Mapping[str, Any]]:
    """Delta -> the contrast D_angular - D_magnitude (nats per token) of the sweep, at usable deltas with an interval.

    Positions of the headline; where blocks were perturbed one at a time, the middle one.
    """
    found = [
        one
        for one in facts.contrasts
        if one.get("experiment") == "sweep"
        and one.get("measure") == facts.loss_measure
        and one.get("kind") == "difference"
        and one.get("phenomenon") is None
    ]
    run = [one.get("positions") for one in found]
    positions = next((name for name in POSITIONS if name in run), run[0] if run else None)
    by_delta: dict[float, list[Mapping[str, Any]]] = {}
    for one in found:
        if one.get("positions") == positions:
            by_delta.setdefault(float(one["delta"]), []).append(one)
    middle = {delta: sorted(at, key=_block)[len(at) // 2] for delta, at in by_delta.items()}
    return {d: one for d, one in middle.items() if one.get("ci95") is not None and one.get("p_holm") is not None}


def c8(models: Sequence[ModelFacts]) -> dict[str, Any]:
    """RMSNorm reverses the loss side: the claim's entry in `compare.json`.

    `replicates` when d_loss = D_angular - D_magnitude is below 0 in every RMSNorm model and above 0 in every LayerNorm
    model at the smallest delta that all of them have, `contradicts` when it is above 0 in every RMSNorm model.
    """
    known = [one for one in models if one.norm_kind in ("layernorm", "rmsnorm")]
    left_out = [one.model for one in models if one not in known]
    kinds = {one.norm_kind for one in known}
    if kinds != {"layernorm", "rmsnorm"}:
        given = ", ".join(sorted(kinds)) or "none"
        return _entry("C8", why=f"needs at least one LayerNorm and one RMSNorm model; norm kinds given: {given}")
    if len(modes := {one.delta_mode for one in known}) > 1:
        named = ", ".join(sorted(map(str, modes)))
        return _entry("C8", why=f"the runs measure displacements in different units ({named})")
    differences = [loss_differences(one) for one in known]
    shared = set.intersection(*map(set, differences))
    if not shared:
        return _entry("C8", why="the models share no delta at which the loss difference has an interval")
    delta = min(shared)
    by_model = [
        {
            "model": one.model,
            "norm_kind": one.norm_kind,
            "value": at[delta]["value"],
            "ci95": at[delta]["ci95"],
            "sign": _sign(at[delta]["ci95"]),
        }
        for one, at in zip(known, differences, strict=True)
    ]
    signs = {kind: {one["sign"] for one in by_model if one["norm_kind"] == kind} for kind in kinds}
    if signs == {"rmsnorm": {-1}, "layernorm": {1}}:
        status, why = "replicates", "magnitude costs more loss in every RMSNorm model, angular in every LayerNorm model"
    elif signs["rmsnorm"] == {1}:
        status, why = "contradicts", "angular costs more loss in every RMSNorm model"
    else:
        names = {-1: "magnitude", 0: "neither arm", 1: "angular"}
        seen = "; ".join(f"{one['model']} ({one['norm_kind']}): {names[one['sign']]}" for one in by_model)
        status, why = "inconclusive", f"the arm that costs more loss does not follow the norm kind ({seen})"
    why = f"at delta {delta:g}, the smallest that all models have, {why}"
    if left_out:
        why += f"; left out, norm kind unknown: {', '.join(left_out)}"
    return _entry("C8", status=status, delta=delta, by_model=by_model, why=why)


def c9(models: Sequence[ModelFacts]) -> dict[str, Any]:
    """C1 and C3 hold on models of 1e9 parameters or more: the claim's entry in `compare.json`.

    `replicates` when both replicate in every such model, `contradicts` when C1 or C3 contradicts in one or more and
    replicates in none. `measured` is the ratio R of C1 in the model nearest to 1.4e9 parameters.
    """
    large = [one for one in models if one.n_params is not None and one.n_params >= LARGE]
    if not large:
        return _entry("C9", why="needs a model of 1e9 parameters or more; none was given")
    status_of = {one.model: {id_: _status(one, id_) for id_ in ("C1", "C3")} for one in large}
    by_claim = {id_: [found[id_] for found in status_of.values()] for id_ in ("C1", "C3")}
    fails = [id_ for id_, all_ in by_claim.items() if "contradicts" in all_ and "replicates" not in all_]
    untested = [id_ for id_, all_ in by_claim.items() if set(all_) == {"not_run"}]
    named = "; ".join(f"{model}: C1 {found['C1']}, C3 {found['C3']}" for model, found in status_of.items())
    if fails:
        status, why = "contradicts", f"{' and '.join(fails)} contradicts and replicates in no large model ({named})"
    elif untested:
        status, why = "not_run", f"{' and '.join(untested)} was not tested on a model of this size ({named})"
    elif all(set(all_) == {"replicates"} for all_ in by_claim.values()):
        status, why = "replicates", f"C1 and C3 replicate in every large model ({named})"
    else:
        status, why = "inconclusive", f"C1 and C3 do not both replicate in every large model ({named})"
    shown = min(large, key=lambda one: abs(math.log((one.n_params or 1) / PAPER_LARGE)))
    c1 = _claim(shown, "C1")
    by_model = [{"model": one.model, "n_params": one.n_params, **status_of[one.model]} for one in large]
    return _entry(
        "C9",
        status=status,
        measured=c1.get("measured"),
        ci95=c1.get("ci95"),
        delta=c1.get("delta"),
        by_model=by_model,
        why=f"{why}; the ratio shown is that of {shown.model}",
    )


def _entry(id_: str, **found: Any) -> dict[str, Any]:
    claim = next(one for one in CLAIMS if one.id == id_)
    blank: dict[str, Any] = {
        "measured": None,
        "ci95": None,
        "status": "not_run",
        "size_agrees": None,
        "delta": None,
        "by_model": [],
    }
    return {"id": id_, "claim": claim.text, "paper": claim.paper, **blank, **found}


def _sign(interval: Sequence[float]) -> int:
    return 1 if interval[0] > 0 else -1 if interval[1] < 0 else 0


def _claim(facts: ModelFacts, id_: str) -> Mapping[str, Any]:
    return next((one for one in facts.claims if one.get("id") == id_), {})


def _status(facts: ModelFacts, id_: str) -> str:
    return str(_claim(facts, id_).get("status", "not_run"))


def _block(contrast: Mapping[str, Any]) -> int:
    """The first perturbed block, to sort by."""
    digits = "".join(c if c.isdigit() else " " for c in str(contrast.get("layers") or "")).split()
    return int(digits[0]) if digits else -1
