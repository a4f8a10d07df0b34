"""The audit on planted rows: borrowed arms, survival, effects of known size, coverage, words."""

import json
import math

import numpy as np
import pytest
from synthetic_rows import frame, moved, pair, text

from polarlens.perturbation.audit import audit_design
from polarlens.statistics.audit import audit, with_borrowed
from polarlens.statistics.effects import accuracy_contrast, log_ratio
from polarlens.statistics.intervals import moments

DESIGN = audit_design(delta_mode="relative", n_layers=8)


def angular_loss(policy_id):
    """Rotations drawn once for all layers cost eight times as much, whichever policy they belong to."""
    shared = "layers=shared" in policy_id or (policy_id.startswith("notebook") and "layers=fresh" not in policy_id)
    return 1.6 if shared else 0.2


def magnitude_loss(policy_id):
    return 0.8 if "layers=shared" in policy_id else 0.1


def drop(policy_id, arm):
    return {"magnitude": 20.0, "angular": 20.0 if "independent" in policy_id else 2.0}[arm]


def planted(design=DESIGN, n_texts=40, n_pairs=150, seeds=2, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    texts = [text(f"t{k}", 100.0, int(rng.integers(8, 64))) for k in range(n_texts)]
    size = rng.gamma(4.0, 0.25, n_texts)
    pairs = [pair(f"p{k}", -20.0, -22.0 if k % 20 else -18.0) for k in range(n_pairs)]
    luck = rng.random(n_pairs)  # the same items fail first under every policy
    for task in ("loss", "pairs"):
        for one, arm in design.runs(task):
            for k in range(seeds):
                common = {"policy_id": one.id, "positions": one.positions, "seed": k, "experiment": "audit"}
                if task == "loss":
                    mean = (angular_loss if arm == "angular" else magnitude_loss)(one.id)
                    for clean, s in zip(texts, size, strict=True):
                        damage = clean["n_tokens"] * mean * (s + noise * rng.standard_normal())
                        rows.append(moved(clean, arm, 0.1, nll=clean["nll"] + damage, kl=0.1, **common))
                else:
                    for j, (clean, u) in enumerate(zip(pairs, luck, strict=True)):
                        fails = j % 20 and (u + 0.02 * rng.standard_normal()) % 1.0 < drop(one.id, arm) / 95.0
                        rows.append(moved(clean, arm, 0.1, logp_bad=-18.0 if fails else clean["logp_bad"], **common))
    cleans = [{**one, "experiment": "audit"} for one in (*texts, *pairs)]
    return frame([*cleans, *rows])


@pytest.fixture(scope="module")
def found():
    return audit(planted(), DESIGN, model="m", delta_mode="relative", unigram_nll=99.0)


def survives(found, claim):
    return {row["policy_id"]: row for row in found.survival if row["claim"] == claim}


def effect(found, policy_id, measure, kind="effect"):
    return next(e for e in found.effects if (e["policy_id"], e["measure"], e["kind"]) == (policy_id, measure, kind))


class TestRows:
    def test_every_policy_has_both_arms_of_the_right_source(self):
        rows = planted(n_texts=2, n_pairs=2)
        full = with_borrowed(rows, DESIGN)
        for task in ("loss", "pairs"):
            part = full[(full["task"] == task) & (full["arm"] != "clean")]
            assert part.groupby(["policy_id", "arm"]).size().eq(4).all()
            assert part["policy_id"].nunique() == len(DESIGN.policies)
        mixed = full[(full["policy_id"] == "matched:layers=mix") & (full["task"] == "loss")]
        for arm, source in (("angular", "matched:layers=shared"), ("magnitude", "matched")):
            want = rows[(rows["policy_id"] == source) & (rows["task"] == "loss") & (rows["arm"] == arm)]
            assert mixed[mixed["arm"] == arm]["nll"].tolist() == want["nll"].tolist()


class TestSurvival:
    def test_every_policy_has_its_line(self, found):
        json.dumps([found.survival, found.effects], allow_nan=False)
        ids = {one.id for one in DESIGN.policies}
        assert all(set(survives(found, claim)) == ids for claim in ("C1", "C2", "verdict"))
        assert set(survives(found, "C3")) == set(survives(found, "C4")) == {"matched", "notebook"}
        assert all(row["status"] == "not_run" and "repair" in row["why"] for row in survives(found, "C3").values())

    def test_values_and_statuses(self, found):
        c1, c2, kinds = (survives(found, claim) for claim in ("C1", "C2", "verdict"))
        for policy_id, ratio in (("matched", 2.0), ("matched:layers=shared", 2.0), ("matched:layers=mix", 16.0)):
            assert c1[policy_id]["ci95"][0] < ratio < c1[policy_id]["ci95"][1]
            assert c1[policy_id]["status"] == "replicates"
            assert kinds[policy_id]["status"] == "crossed"
        assert c2["matched"]["status"] == "replicates"
        assert abs(c2["matched"]["value"] - 18.0) < 5
        assert c2["matched:members=independent"]["status"] != "replicates"
        assert kinds["matched:members=independent"]["status"] != "crossed"

    def test_recoveries_from_outside(self):
        given = {"matched": {"C3": {"measured": 0.1, "ci95": [0.05, 0.15], "status": "replicates", "why": "w"}}}
        rows = planted(n_texts=5, n_pairs=5)
        found = audit(rows, DESIGN, model="m", delta_mode="relative", recoveries=given)
        c3 = survives(found, "C3")
        assert (c3["matched"]["value"], c3["matched"]["status"]) == (0.1, "replicates")
        assert c3["notebook"]["status"] == survives(found, "C4")["matched"]["status"] == "not_run"

    def test_one_task(self):
        design = audit_design(delta_mode="relative", n_layers=8, tasks=("loss",))
        found = audit(planted(design, n_pairs=0), design, model="m", delta_mode="relative")
        assert survives(found, "C2")["matched"]["status"] == "not_run"
        assert survives(found, "C1")["matched"]["status"] == "replicates"
        assert survives(found, "verdict")["matched"]["status"] == "inconclusive"

    @pytest.mark.parametrize("sizes", [{"n_texts": 1, "n_pairs": 1, "seeds": 1}, {"n_texts": 2, "n_pairs": 2}])
    def test_few_items(self, sizes):
        found = audit(planted(**sizes), DESIGN, model="m", delta_mode="relative")
        json.dumps([found.survival, found.effects], allow_nan=False)
        for entry in [*found.survival, *found.effects]:
            assert entry["ci95"] is None or entry["ci95"][0] < entry["ci95"][1]
            assert entry["ci95"] is not None or entry["why"], entry
        assert "nan" not in found.text

    def test_no_rows(self):
        found = audit(planted(n_texts=2, n_pairs=2).iloc[:0], DESIGN, model="m", delta_mode="relative")
        assert all(row["value"] is None for row in found.survival)
        assert "no effect that could be estimated" in found.text


class TestEffects:
    def test_planted_effects(self, found):
        for policy_id, times in (
            ("matched:layers=mix", 8.0), ("matched:layers=shared", 1.0), ("matched:items=by-length", 1.0),
            ("notebook:layers=fresh", 1 / 8.0), ("notebook:layers=shared", 1 / 8.0), ("matched:plane=data", 1.0),
        ):  # fmt: skip
            e = effect(found, policy_id, "log_ratio")
            assert e["ci95"][0] < math.log(times) < e["ci95"][1], (policy_id, e)
            shared = e["from"] == "notebook" or "by-length" in policy_id  # two draws: one degree of freedom
            assert e["ci95"][1] - e["ci95"][0] < (1.5 if shared else 0.25)
        for policy_id in ("matched:members=independent", "matched:layers=shared,members=independent"):
            e = effect(found, policy_id, "accuracy")
            assert e["ci95"][0] < -18 < e["ci95"][1], (policy_id, e)

    def test_pairing_over_items_is_used(self, found):
        """Items differ by half their mean; their effects do not."""
        e, c1 = effect(found, "matched:plane=data", "log_ratio"), survives(found, "C1")["matched"]
        assert e["ci95"][1] - e["ci95"][0] < 0.25
        assert (c1["ci95"][1] - c1["ci95"][0]) / c1["value"] < 0.25

    def test_no_entry_where_the_rows_are_the_same(self, found):
        ids = {e["policy_id"] for e in found.effects if e["measure"] == "log_ratio"}
        assert not ids & {"matched", "notebook", "matched:members=independent", "notebook:members=common"}
        assert not ids & {f"matched:layers=mix,members={level}" for level in ("independent", "mix")}
        assert len(ids) == len(DESIGN.policies) - 2 - 8  # corners; those that differ in the members alone, for a text
        assert "matched:members=independent" in {e["policy_id"] for e in found.effects if e["measure"] == "accuracy"}

    def test_interactions(self, found):
        """Sharing over layers and over members act on different tasks: nothing is left for their interaction."""
        named = [e["policy_id"] for e in found.effects if e["kind"] == "interaction" and e["measure"] == "accuracy"]
        assert sorted(named) == sorted(
            f"matched:layers={a},members={b}" for a in ("shared", "mix") for b in ("independent", "mix")
        )
        e = effect(found, "matched:layers=shared,members=independent", "accuracy", "interaction")
        assert e["ci95"][0] < 0 < e["ci95"][1]
        assert e["rank"] is None

    def test_ranks(self, found):
        for measure in ("log_ratio", "accuracy"):
            effects = [e for e in found.effects if e["measure"] == measure and e["kind"] == "effect"]
            sizes = [abs(e["value"]) for e in effects]
            assert [e["rank"] for e in effects] == list(range(1, len(effects) + 1))
            assert sizes == sorted(sizes, reverse=True)
            assert all(0 <= e["p_holm"] <= 1 for e in effects if e["p_holm"] is not None)

    def test_a_damage_that_is_not_above_zero(self):
        m = moments(np.stack([np.linspace(1, 2, 9), np.linspace(-1, 1, 9), np.linspace(1, 2, 9), np.linspace(2, 3, 9)]))
        assert log_ratio(m, [1.0, -1.0]).value is None
        assert "not above 0" in log_ratio(m, [1.0, -1.0]).why
        assert accuracy_contrast(m, [1.0, -1.0]).value == pytest.approx((0 - 1.5) - (2.5 - 1.5))

    def test_shared_draws_need_two_seeds(self):
        """By-length draws are shared by items: with one seed there is no interval, and it says why."""
        found = audit(planted(n_texts=20, n_pairs=20, seeds=1), DESIGN, model="m", delta_mode="relative")
        e = effect(found, "matched:items=by-length", "log_ratio")
        assert (e["value"], e["ci95"]) == (None, None)
        assert "one seed" in e["why"]
        assert effect(found, "matched:layers=mix", "log_ratio")["ci95"] is not None


def study(rng, n, seeds=0, seed_sd=0.0):
    """(4, I[, J]) damages of two policies' arms whose log R differ by log 3; skewed items, all arms noisy."""
    size = rng.gamma(2.0, 0.5, n)
    means = np.array([6.0, 1.0, 2.0, 1.0])
    if not seeds:
        return means[:, None] * (size + 0.3 * rng.standard_normal((4, n)))
    shared = seed_sd * rng.standard_normal((4, 1, seeds))
    return means[:, None, None] * (size[:, None] + shared + 0.3 * rng.standard_normal((4, n, seeds)))


def test_coverage_of_effects():
    rng, hits, studies = np.random.default_rng(0), np.zeros(3), 600
    for _ in range(studies):
        nested, crossed = study(rng, 60), study(rng, 60, seeds=5, seed_sd=0.1)
        low, high = log_ratio(moments(nested, rng.integers(5, 60, 60)), [1.0, -1.0]).interval()
        hits[0] += low <= math.log(3.0) <= high
        low, high = log_ratio(moments(crossed, shared_draws=True), [1.0, -1.0]).interval()
        hits[1] += low <= math.log(3.0) <= high
        low, high = accuracy_contrast(moments(nested), [1.0, -1.0]).interval()
        hits[2] += low <= (1.0 - 6.0) - (1.0 - 2.0) <= high
    assert (hits >= 0.925 * studies).all(), hits / studies
    assert (hits <= 0.985 * studies).all(), hits / studies


def test_words(found):
    said = found.text
    assert said.startswith(f"{len(DESIGN.policies)} noise policies")
    assert "C1, that angular perturbation costs more loss: replicates under" in said
    assert "The loss ratio hangs most on how draws are shared across layers" in said
    assert "The accuracy contrast hangs most on" in said
    assert said.count(". ") < 8
