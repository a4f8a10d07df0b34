"""Rows of the propagation experiment -> curves over the blocks, amplifications with intervals, and what C5 rests on."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from polarlens.statistics.amplification import exponential, log_amplification, log_amplification_ratio
from polarlens.statistics.claims_given import Given
from polarlens.statistics.entries import Entries
from polarlens.statistics.intervals import Estimate, Moments, as_list, moments
from polarlens.statistics.multiplicity import holm

EXPERIMENT = "propagation"
CURVES = ("distance", "relative", "radial", "angular", "cosine", "attention_entropy", "attention_js", "norm_statistic")
UNITS: Mapping[str, str] = {
    "distance": "the model's units",
    "relative": "fraction of the clean norm",
    "radial": "the model's units",
    "angular": "the model's units",
    "cosine": "",
    "attention_entropy": "nats",
    "attention_js": "nats",
    "norm_statistic": "relative change",
}
_ITEM = ["task", "dataset", "item"]
_CONDITION = ["task", "positions", "policy_id", "delta"]
_NAMED = [*_CONDITION, "layers"]


def travel_entries(rows: pd.DataFrame) -> Entries:
    """Means over items of every measure at every block, and the amplifications of both arms.

    An item's rows are averaged over seeds and antithetic members, then items are clustered. `relative` is the mean of
    the items' ratios of means over tokens. `amplification` is a ratio of means over items.
    """
    out = Entries()
    rows = rows[rows["arm"].isin(("magnitude", "angular"))]
    if rows.empty:
        return out
    keys = [*_NAMED, "arm", "block", *_ITEM[1:]]
    frame = rows.assign(dataset=rows["dataset"].fillna(""))
    grouped = frame.groupby(keys, dropna=False, sort=True)
    table = grouped[list(CURVES)].mean()
    table["cluster"] = grouped["cluster"].first()
    seeds = int(frame["seed"].nunique())
    table = table.reset_index()
    table["cluster"] = table["cluster"].where(table["cluster"].notna(), table["dataset"] + "\n" + table["item"])
    for named, part in table.groupby([*_NAMED, "arm", "block"], dropna=False, sort=True):
        out.cells += _curve_cells(dict(zip([*_NAMED, "arm", "block"], named, strict=True)), part, seeds)
    for named, part in table.groupby(_NAMED, dropna=False, sort=True):
        _amplifications(out, dict(zip(_NAMED, named, strict=True)), part, seeds)
    _first_layer(out, table)
    return out


def _curve_cells(named: dict[str, object], part: pd.DataFrame, seeds: int) -> list[dict[str, object]]:
    found = []
    for measure in CURVES:
        values = part[measure].to_numpy(np.float64)
        if np.isfinite(values).any():
            m = moments(values[None], None, part["cluster"].to_numpy(object))
            found.append(_cell(named, measure, m.linear(1.0), m, seeds))
    return found


def _amplifications(out: Entries, named: dict[str, object], part: pd.DataFrame, seeds: int) -> None:
    first, last = int(part["block"].min()), int(part["block"].max())
    if first == last:
        return
    wide = part.pivot_table(index=["dataset", "item", "cluster"], columns=["arm", "block"], values="distance")
    columns = [(arm, block) for arm in ("angular", "magnitude") for block in (last, first)]
    clusters = wide.index.get_level_values("cluster").to_numpy(object)
    for k, arm in enumerate(("angular", "magnitude")):
        if (arm, first) in wide:
            m = moments(wide[columns[2 * k : 2 * k + 2]].to_numpy(np.float64).T, None, clusters)
            value, interval = exponential(log_amplification(m))
            shown = Estimate(value, why=log_amplification(m).why)
            out.cells.append(
                {**_cell({**named, "arm": arm}, "amplification", shown, m, seeds), "ci95": as_list(interval)}
            )
    if all(column in wide for column in columns):
        m = moments(wide[columns].to_numpy(np.float64).T, None, clusters)
        log = log_amplification_ratio(m)
        value, interval = exponential(log)
        entry = {
            "experiment": EXPERIMENT,
            "measure": "amplification",
            **named,
            "kind": "ratio",
            "value": value,
            "ci95": as_list(interval),
            "ci_simultaneous": None,
            "p_holm": log.p_two_sided(),
            "n_items": m.n_items,
            "n_clusters": m.n_clusters,
            "defined": value is not None,
        }
        out.contrasts.append(entry if interval is not None else {**entry, "why": log.why})
        out.given.setdefault("C5", []).append(Given(log, delta=_number(named["delta"]), layers=str(named["layers"])))


def _first_layer(out: Entries, table: pd.DataFrame) -> None:
    """C5 speaks of the injection at the first perturbed block; Holm's family are the injections shown."""
    for entry, p in zip(out.contrasts, holm([_maybe(e["p_holm"]) for e in out.contrasts]), strict=True):
        entry["p_holm"] = p
    first = str(min(map(int, table["layers"].unique())))
    if "C5" in out.given:
        out.given["C5"] = [given for given in out.given["C5"] if given.layers == first]


def _cell(named: Mapping[str, object], measure: str, estimate: Estimate, m: Moments, seeds: int) -> dict[str, object]:
    interval = estimate.interval()
    entry = {
        "experiment": EXPERIMENT,
        "measure": measure,
        **named,
        "mean": estimate.value,
        "ci95": as_list(interval),
        "ci_simultaneous": None,
        "n_items": m.n_items,
        "n_clusters": m.n_clusters,
        "n_seeds": seeds,
        "infeasible_share": None,
        "realised_delta_mean": None,
    }
    return entry if interval is not None or estimate.why is None else {**entry, "why": estimate.why}


def _number(value: object) -> float:
    return float(value)  # type: ignore[arg-type]


def _maybe(value: object) -> float | None:
    return None if value is None else _number(value)
