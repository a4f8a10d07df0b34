"""Rows -> damages per item: every perturbed row is compared with the clean row of its item.

Damages are losses: perturbed minus clean for `nll`, `nll_item` and `kl` (nats), clean minus perturbed for `accuracy`
(points, ties half) and `margin` (nats), so that more damage is always the larger number.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from polarlens.perturbation.policy import ARMS
from polarlens.statistics.intervals import Array, BoolArray, IntArray

MEASURES: dict[str, tuple[str, ...]] = {"loss": ("nll", "nll_item", "kl"), "pairs": ("accuracy", "margin")}
PER_TOKEN = ("nll", "kl")  # ratios of sums; the other measures are means over items

_ITEM = ["task", "dataset", "item"]
_TEXT = ["task", "dataset", "phenomenon", "cluster", "item", "arm", "layers", "policy_id", "positions"]
_NUMBERS = [
    *("sign", "delta", "seed", "n_tokens", "n_tokens_good", "n_tokens_bad", "nll", "kl", "logp_good", "logp_bad"),
    *("eligible", "infeasible", "moved", "saturated", "realised_delta_mean"),
]


@dataclass(frozen=True)
class Condition:
    """What two arms share when they are compared."""

    task: str
    layers: str | None
    positions: str | None
    policy_id: str | None
    delta: float

    @property
    def order(self) -> tuple[str, str, str, tuple[int, str], float]:
        """A sort key: blocks in numerical order, deltas ascending."""
        digits = "".join(c if c.isdigit() else " " for c in self.layers or "").split()
        block = (int(digits[0]) if digits else -1, self.layers or "")
        return (self.task, self.positions or "", self.policy_id or "", block, self.delta)


@dataclass(frozen=True)
class ArmDamage:
    """One arm under one condition.

    unit: (I,) row numbers of `Damages.items`, ascending. seeds: (J,), empty for the control.
    values: measure -> (I, J or 1) damage of an item averaged over the antithetic members of a seed, NaN where not run;
        numerators, to be divided by `weights`.
    infeasible_share: infeasible / eligible tokens; realised_delta_mean: over tokens that moved. moved: whether any
    token did. saturated_share: rows in which the scale of a sequence hit its bound.
    """

    condition: Condition
    arm: str
    unit: IntArray
    seeds: IntArray
    values: Mapping[str, Array]
    infeasible_share: float | None
    realised_delta_mean: float | None
    moved: bool
    saturated_share: float


@dataclass(frozen=True)
class Damages:
    """All conditions of an experiment.

    items: one line per clean item: task, item (identity), label and cluster (its code), phenomenon, n_tokens, and of
        the clean run nll, accuracy, margin, tie, unequal (members of different token counts).
    arms: conditions with delta > 0; controls: delta = 0; unmoved: conditions under which no token could be moved, so
    that nothing was measured.
    not_finite, without_clean: rows left out because a number is missing or not finite, or there is no clean row.
    """

    items: pd.DataFrame
    arms: tuple[ArmDamage, ...]
    controls: tuple[ArmDamage, ...]
    unmoved: tuple[ArmDamage, ...]
    not_finite: int
    without_clean: int

    def weights(self, measure: str, unit: IntArray) -> Array:
        """(I,) the denominators of `measure`: tokens, or 1."""
        if measure not in PER_TOKEN:
            return np.ones(len(unit))
        return self.items["n_tokens"].to_numpy(np.float64)[unit]

    def clusters(self, unit: IntArray) -> IntArray:
        """(I,) cluster codes."""
        return self.items["cluster"].to_numpy(np.int64)[unit]

    def of_phenomenon(self, unit: IntArray, phenomenon: str | None) -> BoolArray:
        """(I,) the items of `phenomenon`; all of them for None."""
        if phenomenon is None:
            return np.ones(len(unit), dtype=np.bool_)
        return (self.items["phenomenon"].to_numpy(object)[unit] == phenomenon).astype(np.bool_)

    def phenomena(self, task: str) -> tuple[str | None, ...]:
        """None (all items), then each phenomenon when pairs have several."""
        if task != "pairs":
            return (None,)
        found = self.items.loc[self.items["task"] == task, "phenomenon"].dropna().unique()
        return (None, *sorted(map(str, found))) if len(found) > 1 else (None,)


def damages(rows: pd.DataFrame) -> Damages:
    """Compare every perturbed row of an experiment with the clean row of its item and average antithetic members."""
    table = _normalised(rows)
    finite = _measured(table)
    table, lost = table[finite], int((~finite).sum())
    # Sorted, so that nothing depends on the order in which parts were written.
    clean = table[table["arm"] == "clean"].drop_duplicates(_ITEM).sort_values(_ITEM)
    items = _items(clean)
    perturbed = table[table["arm"].isin(ARMS)]
    unit = pd.MultiIndex.from_frame(clean[_ITEM]).get_indexer(pd.MultiIndex.from_frame(perturbed[_ITEM]))
    known = unit >= 0
    perturbed, unit = perturbed[known], unit[known].astype(np.int64)
    arms = sorted(_arms(perturbed, unit, items), key=lambda a: (a.condition.order, a.arm))
    return Damages(
        items=items,
        arms=tuple(a for a in arms if a.condition.delta > 0 and a.moved),
        controls=tuple(a for a in arms if a.condition.delta == 0),
        unmoved=tuple(a for a in arms if a.condition.delta > 0 and not a.moved),
        not_finite=lost,
        without_clean=int((~known).sum()),
    )


def _normalised(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns needed here: text as objects with None, numbers as float64 with NaN for null."""
    out = pd.DataFrame(index=pd.RangeIndex(len(rows)))
    for name in _TEXT:
        if name in rows:
            column = rows[name].astype(object).reset_index(drop=True)
            out[name] = column.where(column.notna(), None)
        else:
            out[name] = pd.Series([None] * len(rows), dtype=object)
    for name in _NUMBERS:
        numbers = pd.to_numeric(rows[name]).to_numpy(np.float64, na_value=np.nan) if name in rows else np.nan
        out[name] = numbers
    out["dataset"] = out["dataset"].where(out["dataset"].notna(), "")
    return out


def _measured(table: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Rows whose numbers are there and finite, with at least one scored token."""
    loss = np.isfinite(table["nll"]) & (table["n_tokens"] > 0) & ~np.isinf(table["kl"])
    pairs = np.isfinite(table["logp_good"]) & np.isfinite(table["logp_bad"])
    kept = ((table["task"] == "loss") & loss) | ((table["task"] == "pairs") & pairs)
    return kept.to_numpy(np.bool_)


def _score(table: pd.DataFrame) -> Array:
    """Points per pair: 100 when the good member is likelier, 50 for a tie."""
    return 50.0 * (1.0 + np.sign((table["logp_good"] - table["logp_bad"]).to_numpy(np.float64)))


def _items(clean: pd.DataFrame) -> pd.DataFrame:
    pairs = (clean["task"] == "pairs").to_numpy()
    # an item without a cluster is its own
    label = clean["cluster"].where(clean["cluster"].notna(), clean["dataset"] + "\n" + clean["item"].astype(str))
    margin = (clean["logp_good"] - clean["logp_bad"]).to_numpy(np.float64)
    return pd.DataFrame(
        {
            "task": clean["task"].to_numpy(object),
            "item": clean["item"].to_numpy(object),
            "label": label.to_numpy(object),
            "cluster": pd.factorize(clean["task"] + "\n" + label.astype(str), sort=True)[0],
            "phenomenon": clean["phenomenon"].to_numpy(object),
            "n_tokens": clean["n_tokens"].to_numpy(np.float64),
            "nll": clean["nll"].to_numpy(np.float64),
            "accuracy": np.where(pairs, _score(clean), np.nan),
            "margin": margin,
            "tie": pairs & (margin == 0),
            "unequal": pairs & (clean["n_tokens_good"] != clean["n_tokens_bad"]).to_numpy(),
        }
    )


def _arms(rows: pd.DataFrame, unit: IntArray, items: pd.DataFrame) -> Iterator[ArmDamage]:
    by = ["task", "layers", "positions", "policy_id", "delta", "arm"]
    group = rows.groupby(by, dropna=False, sort=False).ngroup().to_numpy()
    order = np.argsort(group, kind="stable")
    bounds = np.flatnonzero(np.diff(group[order])) + 1
    clean = {name: items[name].to_numpy(np.float64)[unit] for name in ("nll", "n_tokens", "accuracy", "margin")}
    nll = rows["nll"].to_numpy(np.float64) - clean["nll"]
    values = {
        "nll": nll,
        "nll_item": nll / clean["n_tokens"],
        "kl": rows["kl"].to_numpy(np.float64),
        "accuracy": clean["accuracy"] - _score(rows),
        "margin": clean["margin"] - (rows["logp_good"] - rows["logp_bad"]).to_numpy(np.float64),
    }
    seeds = rows["seed"].to_numpy(np.float64)
    for index in np.split(order, bounds) if len(order) else ():
        part = rows.iloc[index]
        task, layers, positions, policy_id, delta, arm = (part[name].iloc[0] for name in by)
        units, row = np.unique(unit[index], return_inverse=True)
        labels, column = np.unique(np.nan_to_num(seeds[index], nan=-1.0), return_inverse=True)
        cells, shape = row * len(labels) + column, (len(units), len(labels))
        yield ArmDamage(
            condition=Condition(str(task), _text(layers), _text(positions), _text(policy_id), float(delta)),
            arm=str(arm),
            unit=units,
            seeds=labels[labels >= 0].astype(np.int64),
            values={name: _cell_means(values[name][index], cells, shape) for name in MEASURES[str(task)]},
            **_tokens(part),
        )


def _cell_means(values: Array, cells: IntArray, shape: tuple[int, int]) -> Array:
    """Means of the values that fall into each (item, seed) cell, NaN where there is none."""
    there, size = np.isfinite(values), shape[0] * shape[1]
    count = np.bincount(cells[there], minlength=size)
    total = np.bincount(cells[there], weights=values[there], minlength=size)
    with np.errstate(invalid="ignore"):
        return (total / np.where(count, count, np.nan)).reshape(shape)


def _tokens(part: pd.DataFrame) -> dict[str, Any]:
    eligible, infeasible, moved, saturated = (
        part[name].to_numpy(np.float64) for name in ("eligible", "infeasible", "moved", "saturated")
    )
    realised = part["realised_delta_mean"].to_numpy(np.float64)
    there = np.isfinite(eligible) & np.isfinite(infeasible)
    total = float(eligible[there].sum())
    weight = np.where(np.isfinite(moved), moved, 1.0) * np.isfinite(realised)
    return {
        "infeasible_share": float(infeasible[there].sum()) / total if total > 0 else None,
        "realised_delta_mean": float((np.nan_to_num(realised) * weight).sum() / weight.sum()) if weight.any() else None,
        "moved": bool((moved != 0).any()),  # rows that do not say count as moved
        "saturated_share": float((np.nan_to_num(saturated) > 0).mean()),
    }


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
