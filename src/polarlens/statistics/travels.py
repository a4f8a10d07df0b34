"""Rows of the propagation experiment -> curves over the blocks, amplifications with intervals, and what C5 rests on."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import numpy as np
import pandas as pd

from polarlens.perturbation.policy import ARMS
from polarlens.statistics.amplification import exponential, log_amplification, log_amplification_ratio
from polarlens.statistics.claims_given import Given
from polarlens.statistics.entries import Entries
from polarlens.statistics.estimates import Policies, draws_shared
from polarlens.statistics.intervals import Estimate, Interval, Moments, as_list, moments
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
_NAMED = ["task", "positions", "policy_id", "delta", "layers"]
_COUNTS = ["eligible", "infeasible", "moved"]


def travel_entries(rows: pd.DataFrame, policies: Policies) -> Entries:
    """Means over items of every measure at every block, and the amplifications of both arms.

    An item's rows are averaged over seeds and antithetic members, then items are clustered; where items share draws,
    seeds are a second random factor. `relative` is the mean of the items' ratios of means over tokens. `amplification`
    is a ratio of means over items. Of injections but the first one only the distance has cells: all measures of eight
    injections in thirty blocks would be a megabyte, and they are in the rows.
    """
    out = Entries()
    rows = rows[rows["arm"].isin(ARMS)]
    if rows.empty:
        return out
    own = rows["dataset"].fillna("") + "\n" + rows["item"]
    cluster = rows["cluster"].where(rows["cluster"].notna(), own)
    seeds = rows["seed"].astype("float64").fillna(-1.0)
    frame = rows.assign(own=own, cluster=cluster, seed=seeds)
    first = min(rows["layers"].unique(), key=int)
    for key, part in frame.groupby(_NAMED, dropna=False, sort=True):
        named = dict(zip(_NAMED, key, strict=True))
        travels = {
            str(arm): _Travel(named, str(arm), of_arm, policies) for arm, of_arm in part.groupby("arm", sort=True)
        }
        for travel in travels.values():
            out.cells += travel.curves(CURVES if named["layers"] == first else ("distance",))
        _amplifications(out, named, travels)
    out.cells.sort(key=lambda cell: int(str(cell["layers"])))
    out.contrasts.sort(key=lambda one: int(str(one["layers"])))
    _corrected(out)
    # C5 speaks of the injection at the first perturbed block.
    out.given = {claim: [one for one in given if one.layers == first] for claim, given in out.given.items()}
    return out


class _Travel:
    """One arm of one injection: means per item and seed, and what all its cells share."""

    def __init__(self, named: Mapping[str, object], arm: str, rows: pd.DataFrame, policies: Policies) -> None:
        self.named, self.arm = named, arm
        self.shared = draws_shared(policies, str(named["policy_id"]), arm)
        self.first, self.last = int(rows["block"].min()), int(rows["block"].max())
        self.clusters = rows.groupby("own", sort=True)["cluster"].first()
        self.means = rows.groupby(["block", "own", "seed"], sort=True)[list(CURVES)].mean()
        at_first = rows[rows["block"] == self.first]
        counts = at_first[_COUNTS].astype("float64").sum()
        moved = at_first["moved"].astype("float64")
        distance = (at_first["realised_delta_mean"] * moved).sum() / counts["moved"] if counts["moved"] else None
        self.about: dict[str, object] = {
            "n_seeds": int((at_first["seed"].unique() >= 0).sum()),
            "infeasible_share": float(counts["infeasible"] / counts["eligible"]) if counts["eligible"] else None,
            "realised_delta_mean": None if distance is None else float(distance),
        }

    def values(self, measure: str, block: int) -> pd.DataFrame:
        """(items, seeds), NaN where there is no number."""
        found: pd.DataFrame = self.means.loc[block, measure].unstack("seed")  # type: ignore[union-attr]
        return found.reindex(self.clusters.index)

    def curves(self, measures: Sequence[str]) -> Iterator[dict[str, object]]:
        """A cell per block and measure that there is."""
        for block in self.means.index.unique("block"):
            for measure in measures:
                values = self.values(measure, block)
                if values.notna().to_numpy().any():
                    m = _moments([values], self.clusters, shared=self.shared)
                    estimate = m.linear(1.0)
                    yield self.cell(measure, estimate, estimate.interval(), m, block=int(block))

    def cell(
        self, measure: str, estimate: Estimate, interval: Interval | None, m: Moments, **more: object
    ) -> dict[str, object]:
        """An entry of `cells`."""
        entry = {
            "experiment": EXPERIMENT,
            **self.named,
            "arm": self.arm,
            "measure": measure,
            **more,
            "mean": estimate.value,
            "ci95": as_list(interval),
            "ci_simultaneous": None,
            "n_items": m.n_items,
            "n_clusters": m.n_clusters,
            **self.about,
        }
        return entry if interval is not None else {**entry, "why": estimate.why}


def _moments(values: Sequence[pd.DataFrame], clusters: pd.Series, *, shared: bool) -> Moments:
    """Moments of quantities given as (items, seeds), on items that have them all; seeds apart only where shared."""
    if shared:
        seeds = reduce(pd.Index.intersection, [one.columns for one in values])
        stacked = np.stack([one[seeds].to_numpy(np.float64) for one in values])
    else:
        stacked = np.stack([one.mean(axis=1).to_numpy(np.float64) for one in values])
    return moments(stacked, None, clusters.to_numpy(object).astype(str), shared_draws=shared)


def _amplifications(out: Entries, named: Mapping[str, object], travels: Mapping[str, _Travel]) -> None:
    """One arm's amplification as cells, the arms' ratio as a contrast."""
    ends = {
        arm: [travel.values("distance", block) for block in (travel.last, travel.first)]
        for arm, travel in travels.items()
        if travel.last > travel.first
    }
    for arm, both in ends.items():
        m = _moments(both, travels[arm].clusters, shared=travels[arm].shared)
        log = log_amplification(m)
        value, interval = exponential(log)
        out.cells.append(travels[arm].cell("amplification", Estimate(value, why=log.why), interval, m))
    if len(ends) < len(ARMS):
        return
    clusters = travels["angular"].clusters
    clusters = clusters[clusters.index.isin(travels["magnitude"].clusters.index)]
    values = [one.reindex(clusters.index) for arm in ("angular", "magnitude") for one in ends[arm]]
    m = _moments(values, clusters, shared=any(travel.shared for travel in travels.values()))
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


def _corrected(out: Entries) -> None:
    """Holm's p over the injections."""
    for entry, p in zip(out.contrasts, holm([_maybe(e["p_holm"]) for e in out.contrasts]), strict=True):
        entry["p_holm"] = p


def _number(value: object) -> float:
    return float(value)  # type: ignore[arg-type]


def _maybe(value: object) -> float | None:
    return None if value is None else _number(value)
