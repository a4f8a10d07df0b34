"""The audit in plain words: one paragraph from its survival table and effects."""

from collections.abc import Mapping, Sequence

import numpy as np

from polarlens.statistics.kinds import ALPHA

VERDICT = "verdict"  # stands in the column `claim` of the survival table
_WORDS = {
    "across_layers": "how draws are shared across layers",
    "across_items": "how draws are shared across items",
    "across_members": "how draws are shared across the members of a pair",
    "antithetic": "antithetic draws",
    "sign": "the sign of the magnitude arm",
    "matching": "how distances are matched",
    "plane": "the plane of rotation",
    "infeasible": "what is done with infeasible tokens",
    "positions": "which positions are perturbed",
}
_SAYS = {"C1": "that angular perturbation costs more loss", "C2": "that magnitude perturbation costs more agreement"}


def in_words(survival: Sequence[Mapping[str, object]], effects: Sequence[Mapping[str, object]]) -> str:
    """One paragraph: how often each claim survives, the verdicts, and what the two contrasts hang on most."""
    n = len({row["policy_id"] for row in survival})
    sentences = [f"{n} noise policies were run at one displacement."]
    for id_, says in _SAYS.items():
        counts = _counts([row for row in survival if row["claim"] == id_])
        sentences.append(f"{id_}, {says}: {counts}.")
    sentences.append(f"Verdict: {_counts([row for row in survival if row['claim'] == VERDICT])}.")
    for measure, what in (("log_ratio", "The loss ratio"), ("accuracy", "The accuracy contrast")):
        sentences.append(_largest([e for e in effects if e["measure"] == measure and e["kind"] == "effect"], what))
    return " ".join(sentences)


def _counts(rows: Sequence[Mapping[str, object]]) -> str:
    statuses = [str(row["status"]).replace("_", " ") for row in rows]
    counted = sorted(set(statuses), key=lambda status: (-statuses.count(status), status))
    return ", ".join(f"{status} under {statuses.count(status)}" for status in counted) or "not judged"


def _largest(effects: Sequence[Mapping[str, object]], what: str) -> str:
    known = [e for e in effects if e["ci95"] is not None]
    if not known:
        return f"{what} has no effect that could be estimated."
    sure = [e for e in known if _float(e["p_holm"]) <= 2 * ALPHA]
    if not sure:
        return f"{what} does not change under any of {len(known)} policies beyond what chance would do."
    top = sure[0]
    changes = top["changes"]
    assert isinstance(changes, Mapping)
    factors = " and ".join(_WORDS[factor] for factor in changes)
    return (
        f"{what} hangs most on {factors}: {top['policy_id']} {_moved(top)} against {top['from']}; "
        f"{len(sure)} of {len(known)} changes have an effect beyond chance."
    )


def _moved(effect: Mapping[str, object]) -> str:
    interval = effect["ci95"]
    assert isinstance(interval, list)
    value, low, high = (_float(x) for x in (effect["value"], *interval))
    if effect["measure"] == "log_ratio":
        return f"multiplies it by {np.exp(value):.3g} (95 % interval {np.exp(low):.3g} to {np.exp(high):.3g})"
    return f"moves it by {value:+.1f} points (95 % interval {low:+.1f} to {high:+.1f})"


def _float(x: object) -> float:
    return float(x) if isinstance(x, int | float) else float("inf")
