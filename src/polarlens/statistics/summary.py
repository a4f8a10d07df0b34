"""`summary.json` from the rows of a sweep: pure, no model, no files."""

from collections.abc import Mapping, Sequence

import pandas as pd

from polarlens.statistics.baseline import baseline
from polarlens.statistics.cells import cell_entries
from polarlens.statistics.claims import Setting, claim_entries
from polarlens.statistics.contrasts import Comparison, comparisons, contrast_entries
from polarlens.statistics.damage import Damages, damages
from polarlens.statistics.estimates import Policies
from polarlens.statistics.floors import clean_at_floor, usable_conditions
from polarlens.statistics.kinds import DEFAULT_BANDS, Bands
from polarlens.statistics.notices import apart_without_sinks, notices
from polarlens.statistics.verdict import verdict

SCHEMA = 1
EXPERIMENT = "sweep"
LOSS_MEASURE = {"paper": "nll_item", "notebook": "nll_item"}  # `nll` under any other preset
POSITIONS = ("all", "no-first", "no-sinks")  # the first one run is the headline's


def summarise(
    rows: pd.DataFrame,
    *,
    model: str,
    preset: str,
    policies: Policies,
    unigram_nll: float | None = None,
    skipped: Sequence[Mapping[str, object]] = (),
    warnings: Sequence[str] = (),
    missing_units: int = 0,
    complete: bool = True,
    not_run: Mapping[str, str] | None = None,
    bands: Bands = DEFAULT_BANDS,
) -> dict[str, object]:
    """The summary of a sweep as plain data: numbers are finite or null, ready for `json.dumps(allow_nan=False)`.

    rows: the sweep's rows. A clean row per item (arm `clean`), control rows (delta 0) and perturbed rows; other
        experiments' rows are ignored.
    policies: policy_id -> factor -> level, or {arm: level} where the arms differ.
    unigram_nll: unigram cross-entropy of the scored tokens, nats per token; the floor of the loss. None: not checked.
    not_run: claim id -> why it was not tested, beside what the sweep itself cannot test.
    """
    if "experiment" in rows:
        rows = rows[rows["experiment"] == EXPERIMENT]
    measured = damages(rows)
    usable = usable_conditions(measured, policies, unigram_nll)
    compared = comparisons(measured, policies, usable)
    floors = [task for task in ("loss", "pairs") if clean_at_floor(measured, task, unigram_nll)]
    positions = headline_positions(compared)
    loss_measure = LOSS_MEASURE.get(preset, "nll")
    setting = Setting(
        model=model,
        preset=preset,
        delta_mode=_delta_mode(rows),
        positions=positions,
        loss_measure=loss_measure,
        policies=policies,
        clean_at_floor=floors,
        bands=bands,
    )
    verdicts = {
        where: verdict(
            compared,
            positions=where,
            loss_measure=loss_measure,
            policies=policies,
            clean_at_floor=floors,
            bands=bands,
        )
        for where in dict.fromkeys((positions, *_positions_run(compared)))
    }
    return {
        "schema": SCHEMA,
        "model": model,
        "preset": preset,
        "delta_mode": setting.delta_mode,
        "complete": complete,
        "missing_units": missing_units,
        "policies": {name: dict(factors) for name, factors in policies.items()},
        "baseline": baseline(measured),
        "cells": cell_entries(EXPERIMENT, measured, policies, usable),
        "contrasts": contrast_entries(EXPERIMENT, compared),
        "claims": claim_entries(compared, setting, not_run),
        "verdict": verdicts[positions],
        "skipped": [dict(one) for one in skipped],
        "warnings": [
            *warnings,
            *_notices(measured, unigram_nll, verdicts, positions, policies),
            *apart_without_sinks(compared, loss_measure),
        ],
    }


def headline_positions(compared: Sequence[Comparison]) -> str | None:
    """The positions of the headline: `all` where it was run, else what was; None without any comparison."""
    run = _positions_run(compared)
    return next((name for name in POSITIONS if name in run), run[0] if run else None)


def _positions_run(compared: Sequence[Comparison]) -> list[str | None]:
    return list(dict.fromkeys(one.condition.positions for one in compared))


def _delta_mode(rows: pd.DataFrame) -> str | None:
    if "delta_mode" not in rows:
        return None
    modes = rows["delta_mode"].dropna()
    return str(modes.iloc[0]) if len(modes) else None


def _notices(
    measured: Damages,
    unigram_nll: float | None,
    verdicts: Mapping[str | None, Mapping[str, object]],
    positions: str | None,
    policies: Policies,
) -> list[str]:
    found = notices(measured, policies)
    if unigram_nll is None and (measured.items["task"] == "loss").any():
        found.append("the unigram cross-entropy is not known: deltas are not checked against the floor of the loss")
    headline, beside = verdicts[positions]["kind"], verdicts.get("no-sinks")
    if beside is not None and positions != "no-sinks" and beside["kind"] != headline:
        found.append(f"with sinks left clean (no-sinks) the verdict is {beside['kind']}, not {headline}")
    return found
