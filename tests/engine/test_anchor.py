"""The measured table behind the audit (a real model, fresh and shared draws, the published notebook's mix), again.

SmolLM2-135M-Instruct, layers 8-15, relative delta 0.1, `no-first`, plain draws: 100 + 100 minimal pairs with 3 seeds,
and 96 lines with one. The reference numbers were taken with another program, and as many other draws: an accuracy has
to be within 3 points, or within two standard errors of the difference that new draws make, whichever is more.
"""

import numpy as np
import pytest

from polarlens.data import read_pairs, read_texts
from polarlens.engine.batching import batches
from polarlens.engine.conditions import Condition, Protocol
from polarlens.engine.encoding import encode_pairs, encode_texts
from polarlens.engine.engine import Engine
from polarlens.models.tokens import resolve_bos
from polarlens.perturbation import MATCHED
from polarlens.perturbation.policy import ARMS, PerArm

pytestmark = [pytest.mark.smollm2, pytest.mark.full, pytest.mark.timeout(3600)]

FRESH = MATCHED.with_levels(antithetic="off")
SHARED = FRESH.with_levels(across_layers="shared")
MIX = FRESH.with_levels(across_layers=PerArm("fresh", "shared"), across_members=PerArm("independent", "common"))
POLICIES = {
    "fresh, common": FRESH,
    "fresh, independent": FRESH.with_levels(across_members="independent"),
    "shared, common": SHARED,
    "shared, independent": SHARED.with_levels(across_members="independent"),
    "mix": MIX,
}
SEEDS = 3
# Accuracy in points (magnitude, angular); loss damage, mean of per-line means, nats (magnitude, angular).
ACCURACY = {
    "fresh, common": (77.0, 76.2),
    "fresh, independent": (69.8, 68.0),
    "shared, common": (72.8, 71.2),
    "shared, independent": (62.0, 53.7),
    "mix": (69.8, 71.2),
}
LOSS = {"fresh, common": (0.102, 0.194), "shared, common": (0.794, 1.569), "mix": (0.102, 1.569)}


def perturbed(lm, items, policies, seeds):
    """Yield (batch, clean, condition, outcome) for both arms under every policy."""
    engine = Engine(lm, Protocol(tuple(range(8, 16)), "relative", policies), kl=False)
    conditions = [Condition(p, "no-first", arm, 0.1, seed, None) for p in policies for arm in ARMS for seed in seeds]
    for batch in batches(items, 512, has_bos=True):
        clean = engine.clean(batch)
        yield batch, batch.sum_rows(clean.nll).numpy(), None
        for condition, outcome in engine.perturbed(batch, clean, conditions, 2048):
            yield batch, np.asarray(outcome.nll), condition


def test_accuracies_under_every_policy(smollm2, shared_data):
    files = [
        shared_data / "blimp" / f"{kind}_plural_subject_verb_agreement_1.jsonl" for kind in ("regular", "irregular")
    ]
    bos = resolve_bos(smollm2.tokenizer, "auto").id
    items = encode_pairs(read_pairs([*map(str, files)], limit=100).items, smollm2.tokenizer, bos, window=None).items
    base: list[float] = []
    correct: dict[tuple[str, str, int], list[float]] = {}
    for _, nll, condition in perturbed(smollm2, items, POLICIES, range(SEEDS)):
        good, bad = nll.reshape(-1, 2).T
        points = 50 * (1 + np.sign(bad - good))
        if condition is None:
            base.extend(points)
        else:
            correct.setdefault((condition.policy_id, condition.arm, condition.seed), []).extend(points)
    assert np.mean(base) == 76.5
    for name, expected in ACCURACY.items():
        for arm, reference in zip(ARMS, expected, strict=True):
            by_seed = np.array([correct[name, arm, seed] for seed in range(SEEDS)])
            value, error = by_seed.mean(), np.sqrt(2 * by_seed.var(axis=0, ddof=1).mean() / by_seed.size)
            print(
                f"  {name:20} {arm:9} {value:.1f}, reference {reference} (standard error of the difference {error:.1f})"
            )
            assert abs(value - reference) <= max(3.0, 2 * error), (name, arm)


def test_loss_ratios_under_every_policy(smollm2, shared_data):
    texts = read_texts(str(shared_data / "wikitext2" / "test.txt"), text_filter="notebook", limit=96)
    bos = resolve_bos(smollm2.tokenizer, "auto").id
    items = encode_texts(texts.items, smollm2.tokenizer, bos, max_tokens=64, window=None).items
    policies = {name: POLICIES[name] for name in LOSS}
    base: list[float] = []
    damage: dict[tuple[str, str], list[float]] = {}
    for batch, nll, condition in perturbed(smollm2, items, policies, range(1)):
        tokens = np.array([len(one.sequences[0]) - 1 for one in batch.items])
        if condition is None:
            clean = nll / tokens
            base.extend(clean)
        else:
            damage.setdefault((condition.policy_id, condition.arm), []).extend(nll / tokens - clean)
    assert np.mean(base) == pytest.approx(4.955, abs=0.001)
    found = {name: tuple(np.mean(damage[name, arm]) for arm in ARMS) for name in policies}
    for name, (magnitude, angular) in found.items():
        print(f"  {name:20} magnitude {magnitude:.3f}, angular {angular:.3f}: ratio {angular / magnitude:.2f}")
    for name in ("fresh, common", "shared, common"):
        assert found[name][1] / found[name][0] == pytest.approx(2.0, abs=0.3), name
    assert found["mix"][1] / found["mix"][0] > 8
    for name, pair in found.items():
        assert pair == pytest.approx(LOSS[name], rel=0.15), name
