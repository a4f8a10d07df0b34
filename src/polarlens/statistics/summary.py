"""`summary.json` from the rows of all experiments: pure, no model, no files."""

from collections.abc import Mapping, Sequence

import pandas as pd

from polarlens.perturbation.audit import CORNERS, AuditDesign
from polarlens.statistics import audit as audits
from polarlens.statistics import curvature, probing, repairs, travels
from polarlens.statistics.baseline import baseline
from polarlens.statistics.cells import cell_entries
from polarlens.statistics.claims import CLAIMS, Setting, claim_entries
from polarlens.statistics.claims_given import given_entry
from polarlens.statistics.contrasts import Comparison, comparisons, contrast_entries
from polarlens.statistics.damage import Damages, damages
from polarlens.statistics.entries import Entries
from polarlens.statistics.estimates import Policies
from polarlens.statistics.floors import clean_at_floor, usable_conditions
from polarlens.statistics.kinds import DEFAULT_BANDS, Bands
from polarlens.statistics.notices import apart_without_sinks, notices
from polarlens.statistics.published_numbers import published_entries
from polarlens.statistics.verdict import verdict

SCHEMA = 1
EXPERIMENT = "sweep"
LOSS_MEASURE = {"paper": "nll_item", "notebook": "nll_item"}  # `nll` under any other preset
POSITIONS = ("all", "no-first", "no-sinks")  # the first one run is the headline's


def summarise(
    rows: pd.DataFrame,
    *,
    others: Mapping[str, pd.DataFrame] | None = None,
    model: str,
    preset: str,
    policies: Policies,
    unigram_nll: float | None = None,
    skipped: Sequence[Mapping[str, object]] = (),
    warnings: Sequence[str] = (),
    missing_units: int = 0,
    complete: bool = True,
    not_run: Mapping[str, str] | None = None,
    design: AuditDesign | None = None,
    n_layers: int | None = None,
    bands: Bands = DEFAULT_BANDS,
) -> dict[str, object]:
    """The summary of a run as plain data: numbers are finite or null, ready for `json.dumps(allow_nan=False)`.

    rows: the sweep's rows. A clean row per item (arm `clean`), control rows (delta 0) and perturbed rows; other
        experiments' rows are ignored.
    others: experiment -> its rows.
    policies: policy_id -> factor -> level, or {arm: level} where the arms differ.
    unigram_nll: unigram cross-entropy of the scored tokens, nats per token; the floor of the loss. None: not checked.
    not_run: claim id -> why it was not tested, beside what the sweep itself cannot test.
    design: the audit's, where it was run. n_layers: blocks of the model.
    """
    others = others or {}
    if "experiment" in rows:
        rows = rows[rows["experiment"] == EXPERIMENT]
    measured = damages(rows)
    usable = usable_conditions(measured, policies, unigram_nll)
    compared = comparisons(measured, policies, usable)
    floors = clean_at_floor(measured, unigram_nll)
    positions = headline_positions(compared)
    loss_measure = LOSS_MEASURE.get(preset, "nll")
    setting = Setting(
        model=model,
        preset=preset,
        delta_mode=next(filter(None, map(_delta_mode, [rows, *others.values()])), None),
        positions=positions,
        loss_measure=loss_measure,
        policies=policies,
        clean_at_floor=floors,
        bands=bands,
        n_layers=n_layers,
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
    audited = None if design is None else _audit(others.get("audit"), design, setting, unigram_nll)
    added = [entries for name, found in others.items() if (entries := _entries(name, found, setting, unigram_nll))]
    handed = {claim: found for entries in added for claim, found in entries.given.items()}
    published = published_entries(
        measured,
        compared,
        {key: moments for entries in added for key, moments in entries.recoveries.items()},
        model=model,
        preset=preset,
        delta_mode=setting.delta_mode,
        positions=positions,
        policies=policies,
    )
    reasons = {id_: why for id_, why in _refusals(skipped).items() if id_ not in handed} | dict(not_run or {})
    return {
        "schema": SCHEMA,
        "model": model,
        "preset": preset,
        "delta_mode": setting.delta_mode,
        "complete": complete,
        "missing_units": missing_units,
        "policies": {name: dict(factors) for name, factors in policies.items()},
        "baseline": baseline(_clean([rows, *others.values()])),
        "cells": [
            *cell_entries(EXPERIMENT, measured, policies, usable),
            *(cell for entries in added for cell in entries.cells),
        ],
        "contrasts": [
            *contrast_entries(EXPERIMENT, compared),
            *(contrast for entries in added for contrast in entries.contrasts),
        ],
        "claims": claim_entries(compared, setting, reasons, handed),
        **({"published": published} if published else {}),
        "verdict": verdicts[positions],
        **_audit_keys(audited),
        "skipped": [dict(one) for one in skipped],
        "warnings": [
            *warnings,
            *_notices(measured if len(rows) else _unrepaired(others), unigram_nll, verdicts, positions, policies),
            *apart_without_sinks(compared, loss_measure),
        ],
    }


def _entries(experiment: str, rows: pd.DataFrame, setting: Setting, unigram_nll: float | None) -> Entries | None:
    """What another experiment adds to the summary."""
    if rows.empty or experiment == audits.EXPERIMENT:
        return None
    if experiment == repairs.EXPERIMENT:
        return repairs.repair_entries(rows, setting.policies, setting.loss_measure)
    if experiment == probing.EXPERIMENT:
        return probing.probing_entries(rows, setting.policies, unigram_nll)
    if experiment == curvature.EXPERIMENT:
        blocks = curvature.block_curvatures(rows, setting.loss_measure, setting.policies)
        return Entries(*curvature.curvature_entries(blocks))
    return travels.travel_entries(rows, setting.policies) if experiment == travels.EXPERIMENT else None


def _audit(
    rows: pd.DataFrame | None, design: AuditDesign, setting: Setting, unigram_nll: float | None
) -> audits.Audit | None:
    if rows is None or rows.empty:
        return None
    return audits.audit(
        rows[rows["repair"].isna()],
        design,
        model=setting.model,
        delta_mode=setting.delta_mode or "relative",
        loss_measure=setting.loss_measure,
        unigram_nll=unigram_nll,
        bands=setting.bands,
        recoveries={corner: _recoveries(rows, corner, setting) for corner in CORNERS},
    )


def _audit_keys(audited: audits.Audit | None) -> dict[str, object]:
    if audited is None:
        return {}
    return {"audit": audited.survival, "audit_effects": audited.effects, "audit_text": audited.text}


def _recoveries(rows: pd.DataFrame, corner: str, setting: Setting) -> dict[str, dict[str, object]]:
    """C3 and C4 under the policy of a corner."""
    policies = {corner: CORNERS[corner].as_dict()}
    here = rows[(rows["policy_id"] == corner) | (rows["arm"] == "clean")]
    given = repairs.repair_entries(here, policies, setting.loss_measure).given
    return {
        claim.id: given_entry(
            claim,
            given[claim.id],
            model=setting.model,
            preset=corner,
            delta_mode=setting.delta_mode,
            n_layers=setting.n_layers,
        )
        for claim in CLAIMS
        if claim.id in given
    }


def _refusals(skipped: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """Why C3, C4 and C5 could not be tested, from what was skipped."""
    about: dict[tuple[str, str], tuple[str, ...]] = {("repair", name): (id_,) for name, id_ in repairs.CLAIM_OF.items()}
    about |= {("propagation", "propagation"): ("C5",), ("sweep", "task loss"): ("C3", "C4")}
    return {
        id_: f"{one['what']}: {one['why']}"
        for one in skipped
        for id_ in about.get((str(one["experiment"]), str(one["what"])), ())
    }


def _clean(experiments: Sequence[pd.DataFrame]) -> Damages:
    """The clean rows of all experiments, each item's from the first that has it."""
    found = [clean for rows in experiments if "arm" in rows and len(clean := rows[rows["arm"] == "clean"])]
    return damages(pd.concat(found, ignore_index=True) if found else pd.DataFrame())


def _unrepaired(others: Mapping[str, pd.DataFrame]) -> Damages:
    """The run without repairs of the repair experiment."""
    rows = others.get(repairs.EXPERIMENT, pd.DataFrame())
    return damages(rows[rows["repair"].isna()] if len(rows) else rows)


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
