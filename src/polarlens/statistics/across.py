"""`compare.json` from the summaries, manifests and rows of several runs: pure, no model, no files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pandas as pd

from polarlens.errors import UsageError
from polarlens.statistics.claims_across import ModelFacts, c8, c9
from polarlens.statistics.comparable import cautions, groups, refusals, task_refusals
from polarlens.statistics.comparison import compare_sides, side
from polarlens.statistics.pairing import ENOUGH, Side, shared_items
from polarlens.statistics.summary import LOSS_MEASURE

SCHEMA = 1
TASKS = {"loss": "texts", "pairs": "pairs"}


@dataclass(frozen=True)
class RunFacts:
    """One run: a name that no other run has, its folder, summary and manifest, and the rows of its sweep."""

    name: str
    path: str
    summary: Mapping[str, Any]
    manifest: Mapping[str, Any]
    rows: pd.DataFrame

    @property
    def loss_measure(self) -> str:
        """`nll`, or `nll_item` under the presets that average over items."""
        return LOSS_MEASURE.get(str(self.summary["preset"]), "nll")


def compare_runs(runs: Sequence[RunFacts]) -> dict[str, Any]:
    """`compare.json`: what the runs say, the contrasts of every two of them, the claims C8 and C9, warnings.

    Raises UsageError when no two of the runs share a condition, saying why for each two.
    """
    sides = {run.name: _side(run) for run in runs}
    contrasts: list[dict[str, object]] = []
    warnings = [warning for run in runs for warning in _alone(run)]
    for a, b in combinations(runs, 2):
        found, said = _pair(a, b, sides[a.name], sides[b.name])
        contrasts += found
        warnings += [f"{a.name} and {b.name}: {one}" for one in said]
    if not contrasts:
        raise UsageError(
            "these runs cannot be compared: " + "; ".join(warnings),
            fix="Give runs of one preset and delta mode that share a task, positions and a delta.",
        )
    return {
        "schema": SCHEMA,
        "runs": [_run(run) for run in runs],
        "contrasts": contrasts,
        "claims": _claims(runs),
        "warnings": list(dict.fromkeys(warnings)),
    }


def _side(run: RunFacts) -> Side:
    return side(
        run.name,
        run.rows,
        policies=run.summary["policies"],
        unigram_nll=run.manifest.get("unigram_nll"),
        loss_measure=run.loss_measure,
    )


def _pair(a: RunFacts, b: RunFacts, first: Side, second: Side) -> tuple[list[dict[str, object]], list[str]]:
    """The contrasts of two runs, and what to say about them."""
    if refused := refusals(a.manifest, b.manifest):
        return [], [f"not compared: {'; '.join(refused)}"]
    held = task_refusals(a.manifest, b.manifest)
    said = [f"the task {task} is not compared: {why}" for task, why in held.items()]
    out: list[dict[str, object]] = []
    for task, what in TASKS.items():
        if task in held or not (first.conditions(task) and second.conditions(task)):
            continue
        found = compare_sides(first, second, [task])
        out += found
        said += (
            _overlap(task, what, first, second) if found else [f"the task {task} has no delta and positions in both"]
        )
    if not out:
        return [], said or ["not compared: they have no task in common"]
    return out, said + cautions(a.manifest, b.manifest)


def _overlap(task: str, what: str, a: Side, b: Side) -> list[str]:
    """What is left out where the runs hold different items, positions or deltas."""
    n_a, n_b, both = shared_items(a, b, task)
    said = []
    if both < ENOUGH * min(n_a, n_b):
        said.append(f"{both} {what} in common of {n_a} and {n_b}: compared as independent samples")
    elif both < max(n_a, n_b):
        said.append(f"compared on the {both} {what} in common, of {n_a} and {n_b}")
    for name in ("positions", "delta"):
        first, second = ({getattr(c, name) for c in one.conditions(task)} for one in (a, b))
        if alone := sorted(first ^ second, key=str):
            shown = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in alone)
            said.append(f"{name} {shown} in one of them only, for the task {task}")
    return said


def _alone(run: RunFacts) -> list[str]:
    """What is wrong with one run, whatever it is compared with."""
    said = []
    if not run.summary.get("complete", True):
        said.append(f"{run.name}: the run is incomplete, {run.summary.get('missing_units')} units of work are missing")
    if quantised := (run.manifest["model"].get("source") or {}).get("quantisation"):
        said.append(f"{run.name}: the weights are dequantised from {quantised}")
    return said


def _claims(runs: Sequence[RunFacts]) -> list[dict[str, Any]]:
    """C8 and C9. Models measured under different presets say nothing about their norms."""
    facts = [_facts(run) for run in runs]
    presets = sorted({str(run.summary["preset"]) for run in runs})
    if len(presets) > 1:
        return [{**c8([]), "why": f"the runs have different presets ({', '.join(presets)})"}, c9(facts)]
    return [c8(facts), c9(facts)]


def _facts(run: RunFacts) -> ModelFacts:
    model, summary = run.manifest["model"], run.summary
    return ModelFacts(
        model=run.name,
        norm_kind=str(model.get("norm_kind")),
        n_params=model.get("n_params"),
        contrasts=summary["contrasts"],
        claims=summary["claims"],
        loss_measure=run.loss_measure,
        delta_mode=summary.get("delta_mode"),
    )


def _run(run: RunFacts) -> dict[str, Any]:
    """What a run says on its own: the numbers that a reader compares. `contrasts`: of the sweep, over all phenomena."""
    model, summary = run.manifest["model"], run.summary
    measures = (run.loss_measure, "accuracy")
    return {
        "model": run.name,
        "path": run.path,
        "source": (model.get("source") or {}).get("location", model.get("name")),
        "family": model.get("family"),
        "norm_kind": model.get("norm_kind"),
        "n_params": model.get("n_params"),
        "n_layers": model.get("n_layers"),
        "width": model.get("width"),
        "preset": summary["preset"],
        "delta_mode": summary.get("delta_mode"),
        "layers": str(run.manifest["settings"].get("layers")),
        "blocks": groups(run.manifest),
        "baseline": summary["baseline"],
        "verdict": summary["verdict"],
        "claims": summary["claims"],
        "policies": summary["policies"],
        "contrasts": [
            one
            for one in summary["contrasts"]
            if one["experiment"] == "sweep" and one["measure"] in measures and one.get("phenomenon") is None
        ],
        "state_profile": run.manifest.get("state_profile"),
    }
