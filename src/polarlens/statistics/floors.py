"""Where a measurement can no longer tell the arms apart: accuracy at chance, loss at the unigram cross-entropy."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from polarlens.errors import UsageError
from polarlens.statistics.damage import ArmDamage, Condition, Damages
from polarlens.statistics.estimates import Policies, arm_moments, clean_moments, draws_shared
from polarlens.statistics.intervals import Estimate

CHANCE = 50.0  # points


def unigram_cross_entropy(items: Sequence[npt.ArrayLike], vocabulary: int) -> float:
    """Cross-entropy of tokens under their own frequencies, nats per token: the loss of a model that reads no context.

    Each item's tokens are predicted from the other items with one added to every count of the tokenizer's vocabulary:
    p_i(w) = (count of w outside item i + 1) / (tokens outside item i + vocabulary). The in-sample entropy would lie
    lower, at times below the loss of the model itself.

    items: token ids of the scored tokens, one sequence per item. Raises UsageError when no token is there or an id lies
    outside the vocabulary.
    """
    ids = [np.asarray(item, dtype=np.int64).reshape(-1) for item in items]
    every = np.concatenate(ids) if ids else np.zeros(0, dtype=np.int64)
    if every.size == 0:
        raise UsageError("the unigram cross-entropy needs at least one scored token")
    if every.min() < 0 or every.max() >= vocabulary:
        raise UsageError(f"token ids run from {every.min()} to {every.max()}, the vocabulary has {vocabulary} entries")
    counts = np.bincount(every, minlength=vocabulary)
    total = 0.0
    for item in ids:
        token, own = np.unique(item, return_counts=True)
        total -= float(own @ np.log((counts[token] - own + 1.0) / (every.size - item.size + vocabulary)))
    return total / every.size


def at_floor(level: Estimate, task: str, unigram_nll: float | None) -> bool:
    """Whether a level (accuracy in points, nll in nats per token) cannot be told from its floor.

    Accuracy: the 95 % interval holds 50 or lies below it. Loss: it reaches the unigram cross-entropy. A level without
    an interval is not judged.
    """
    interval = level.interval()
    if interval is None:
        return False
    if task == "pairs":
        return interval[0] <= CHANCE
    return unigram_nll is not None and interval[1] >= unigram_nll


def clean_at_floor(damages: Damages, unigram_nll: float | None) -> dict[str, str]:
    """Task -> why its unperturbed score is at the floor; without the tasks whose score is not."""
    found = {}
    for task, measure in (("loss", "nll"), ("pairs", "accuracy")):
        moments = clean_moments(damages, task, measure)
        level = Estimate(None) if moments is None else moments.linear(1.0)
        interval = level.interval()
        if moments is None or interval is None or not at_floor(level, task, unigram_nll):
            continue
        low, high = interval
        if task == "pairs":
            what = f"accuracy, {max(low, 0.0):.1f} to {min(high, 100.0):.1f} points on {moments.n_items} pairs"
            floor = f"{'reaches' if high >= CHANCE else 'lies below'} chance ({CHANCE:g})"
        else:
            what = f"loss, {low:.2f} to {high:.2f} nats per token on {moments.n_items} texts"
            floor = f"reaches the unigram cross-entropy ({unigram_nll:.2f})"
        found[task] = f"{task}: the 95 % interval of clean {what}, {floor}"
    return found


def usable_conditions(damages: Damages, policies: Policies, unigram_nll: float | None) -> Mapping[Condition, bool]:
    """Condition -> False where both arms are at the floor of its task; one there only understates the difference."""
    floors: dict[Condition, list[bool]] = {}
    for arm in damages.arms:
        floors.setdefault(arm.condition, []).append(_arm_at_floor(damages, arm, policies, unigram_nll))
    return {condition: not (len(arms) == 2 and all(arms)) for condition, arms in floors.items()}


def family_sizes(usable: Mapping[Condition, bool]) -> Mapping[tuple[str, str | None, str | None], int]:
    """(task, positions, policy_id) -> usable deltas (times blocks): the size of a family of tests."""
    return _count(family(condition) for condition, good in usable.items() if good)


def family(condition: Condition) -> tuple[str, str | None, str | None]:
    """The family of tests that a condition belongs to."""
    return (condition.task, condition.positions, condition.policy_id)


def _count(keys: Iterable[tuple[str, str | None, str | None]]) -> dict[tuple[str, str | None, str | None], int]:
    out: dict[tuple[str, str | None, str | None], int] = {}
    for key in keys:
        out[key] = out.get(key, 0) + 1
    return out


def _arm_at_floor(damages: Damages, arm: ArmDamage, policies: Policies, unigram_nll: float | None) -> bool:
    measure = "accuracy" if arm.condition.task == "pairs" else "nll"
    shared = draws_shared(policies, arm.condition.policy_id, arm.arm)
    level = arm_moments(damages, arm, measure, shared_draws=shared, level=True)
    return level is not None and at_floor(level.linear(1.0), arm.condition.task, unigram_nll)
