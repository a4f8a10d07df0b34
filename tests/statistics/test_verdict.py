"""Kinds of a verdict, floors, claims, and the whole summary on made-up sweeps."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from synthetic_rows import POLICIES, by_arm, controls, frame, moved, pair, sweep, text

from polarlens.errors import UsageError
from polarlens.statistics import Bands, summarise, unigram_cross_entropy
from polarlens.statistics.claims import CLAIMS, order_status, reference_delta
from polarlens.statistics.intervals import Estimate, moments
from polarlens.statistics.kinds import Sides, classify, overall
from polarlens.statistics.verdict import matching_loss_policy

CROSSED = {"loss": by_arm(0.1, 0.3), "drop": by_arm(20.0, 2.0)}


def summary(rows, preset="matched", **more):
    return summarise(
        rows, **{"model": "m", "preset": preset, "policies": POLICIES[preset], "unigram_nll": 99.0, **more}
    )


def sides(loss, drop, n=400, spread=0.02):
    """Means (angular, magnitude) of both tasks with a small, exactly known spread over items."""
    unit = np.array([1.0, -1.0] * (n // 2)), np.array([1.0, 1.0, -1.0, -1.0] * (n // 4))
    loss_items = np.stack([mean * (1 + spread * u) for mean, u in zip(loss, unit, strict=True)])
    drop_items = np.stack([mean + 50 * spread * u for mean, u in zip(drop, unit, strict=True)])
    return Sides(moments(loss_items), moments(drop_items, bounded=True))


class TestKinds:
    @pytest.mark.parametrize(
        ("loss", "drop", "kind", "arm"),
        [
            ((0.3, 0.1), (2.0, 20.0), "crossed", None),
            ((0.1, 0.3), (20.0, 2.0), "reversed", None),
            ((0.3, 0.1), (20.0, 2.0), "same_arm", "angular"),
            ((0.1, 0.3), (2.0, 20.0), "same_arm", "magnitude"),
            ((0.3, 0.1), (5.0, 5.0), "loss_only", None),
            ((0.1, 0.3), (5.0, 5.0), "loss_only", None),
            ((0.2, 0.2), (2.0, 20.0), "syntax_only", None),
            ((0.2, 0.2), (5.0, 5.0), "none", None),
        ],
    )
    def test_each_kind(self, loss, drop, kind, arm):
        (found,) = classify([sides(loss, drop)], Bands())
        assert (found.kind, found.arm) == (kind, arm)

    def test_inconclusive_when_nothing_is_precise(self):
        assert classify([sides((0.25, 0.2), (5.0, 9.0), n=8, spread=2.0)], Bands())[0].kind == "inconclusive"

    def test_loss_side_is_undecided_without_damage(self):
        """Equal damages near zero are not equal damages: no ratio can be bounded."""
        assert classify([sides((1e-6, 1e-6), (5.0, 5.0), spread=1e3)], Bands())[0].kind == "inconclusive"

    def test_negligible_differences_are_none_however_precise(self):
        (found,) = classify([sides((0.200, 0.195), (5.0, 5.5), n=4000, spread=0.01)], Bands())
        assert found.kind == "crossed"  # both orders stand
        (found,) = classify([sides((0.200, 0.195), (5.0, 5.0), n=4000, spread=0.01)], Bands())
        assert found.kind == "none"

    def test_bands_are_options(self):
        loss_differs = [sides((0.3, 0.2), (5.0, 5.0))]
        assert classify(loss_differs, Bands())[0].kind == "loss_only"
        assert classify(loss_differs, Bands(loss_ratio=0.5))[0].kind == "none"
        drop_differs = [sides((0.2, 0.2), (5.0, 8.0))]
        assert classify(drop_differs, Bands())[0].kind == "syntax_only"
        assert classify(drop_differs, Bands(points=5.0))[0].kind == "none"
        assert classify([sides((0.3, 0.1), (5.0, 6.0), n=40, spread=0.1)], Bands(points=0.5))[0].kind == "inconclusive"

    def test_holm_over_the_family(self):
        """A p of 0.02 counts alone and not among five."""
        rng = np.random.default_rng(0)
        noise = rng.standard_normal(50)
        noise = (noise - noise.mean()) / noise.std(ddof=1) / 1.0
        t = 2.15  # one-sided p 0.018 with 49 df
        d = Sides(
            moments(np.stack([noise + t / math.sqrt(50), np.zeros(50)])),
            moments(np.stack([np.zeros(50), noise + t / math.sqrt(50)])),
        )
        weak = Sides(moments(np.stack([noise, 0 * noise])), moments(np.stack([0 * noise, noise])))
        assert classify([d], Bands(points=1e-9))[0].kind == "crossed"
        assert [k.kind for k in classify([d] + [weak] * 4, Bands(points=1e-9))] == ["inconclusive"] * 5

    @pytest.mark.parametrize(
        ("kinds", "together"),
        [
            (["crossed", "inconclusive"], "crossed"),
            (["crossed", "none"], "crossed"),
            (["crossed", "loss_only", "inconclusive"], "mixed"),
            (["none", "none"], "none"),
            (["none", "inconclusive"], "inconclusive"),
            (["inconclusive"], "inconclusive"),
            (["uninformative", "reversed"], "reversed"),
            (["uninformative"], "uninformative"),
            ([], "uninformative"),
        ],
    )
    def test_overall(self, kinds, together):
        assert overall(kinds) == together


class TestVerdict:
    def test_crossed_under_both(self):
        verdict = summary(sweep(**CROSSED))["verdict"]
        assert verdict["kind"] == "crossed"
        assert verdict["by_pair_policy"] == {"common": "crossed", "independent": "crossed"}
        assert set(verdict["deltas"]) <= {0.05, 0.1, 0.2}
        assert 0.2 in verdict["deltas"]
        assert "by_layer" not in verdict
        assert {d["pair_policy"] for d in verdict["by_delta"]} == {"common", "independent"}

    def test_policies_that_disagree(self):
        rows = sweep(**CROSSED, drop_under={"matched-independent": by_arm(2.0, 20.0)})
        verdict = summary(rows)["verdict"]
        assert (verdict["kind"], verdict["deltas"]) == ("inconclusive", [])
        assert verdict["by_pair_policy"] == {"common": "crossed", "independent": "same_arm"}
        assert "common: crossed" in verdict["why"]
        assert "independent: same_arm" in verdict["why"]

    def test_policies_that_agree_at_no_common_delta(self):
        def drop_at(small: bool):
            return lambda arm, d: 30.0 * (arm == "magnitude" and (d < 0.1) is small) + 2.0

        small, large = drop_at(True), drop_at(False)
        rows = sweep(CROSSED["loss"], small, drop_under={"matched-independent": large}, deltas=(0.05, 0.2), seed=1)
        verdict = summary(rows, bands=Bands(points=0.1))["verdict"]
        assert verdict["by_pair_policy"] == {"common": "crossed", "independent": "crossed"}
        assert verdict["kind"] == "inconclusive"
        assert "no common delta" in verdict["why"]

    def test_one_pair_policy(self):
        verdict = summary(sweep(**CROSSED, preset="paper"), preset="paper")["verdict"]
        assert verdict["by_pair_policy"] == {"common": None, "independent": "crossed"}
        assert (verdict["kind"], verdict["loss_measure"]) == ("crossed", "nll_item")

    def test_policy_that_differs_between_the_arms(self):
        rows = sweep(**CROSSED, preset="notebook", seeds=4, n_pairs=200)
        verdict = summary(rows, preset="notebook")["verdict"]
        assert verdict["by_pair_policy"] == {"common": None, "independent": None, "notebook-pairs": verdict["kind"]}

    @pytest.mark.parametrize(("given", "missing"), [("loss", "pairs"), ("drop", "loss")])
    def test_one_task(self, given, missing):
        verdict = summary(sweep(**{given: CROSSED[given]}, n_texts=10, n_pairs=10))["verdict"]
        assert (verdict["kind"], verdict["deltas"]) == ("inconclusive", [])
        assert missing in verdict["why"]

    def test_tasks_without_a_common_delta(self):
        loss, pairs = sweep(CROSSED["loss"], None, deltas=(0.1,)), sweep(None, CROSSED["drop"], deltas=(0.2,))
        rows = pd.concat([loss, pairs], ignore_index=True)
        verdict = summary(rows)["verdict"]
        assert verdict["kind"] == "uninformative"
        assert "share no delta" in verdict["why"]

    def test_one_block_at_a_time(self):
        verdict = summary(sweep(**CROSSED, layers=("2", "10"), deltas=(0.1, 0.2)))["verdict"]
        assert verdict["kind"] == "crossed"
        assert list(verdict["by_layer"]) == ["2", "10"]
        assert verdict["by_layer"]["2"]["kind"] == "crossed"

    def test_sinks_left_clean(self):
        both = sweep(**CROSSED, positions=("all", "no-sinks"), n_texts=30, n_pairs=80, seeds=1)
        assert not any("no-sinks" in w for w in summary(both)["warnings"])
        other = both.copy()
        there = (other["positions"] == "no-sinks") & (other["task"] == "pairs")
        arms = {"angular": "magnitude", "magnitude": "angular"}
        other.loc[there, "arm"] = other.loc[there, "arm"].map(arms)
        found = summary(other)
        assert found["verdict"]["kind"] == "crossed"
        assert found["verdict"]["positions"] == "all"
        assert any("no-sinks" in w and "same_arm" in w for w in found["warnings"])

    def test_headline_without_all_positions(self):
        rows = sweep(**CROSSED, positions=("no-sinks", "no-first"), n_texts=5, n_pairs=5, seeds=1)
        assert summary(rows)["verdict"]["positions"] == "no-first"

    def test_a_pair_policy_meets_the_loss_policy_with_its_factors(self):
        policies = {
            "fresh": {"across_layers": "fresh", "across_members": None},
            "shared": {"across_layers": "shared", "across_members": None},
            "pairs": {"across_layers": "shared", "across_members": "common"},
            "other": {"across_layers": "odd", "across_members": "common"},
        }
        assert matching_loss_policy("pairs", {"fresh", "shared"}, policies) == "shared"
        assert matching_loss_policy("other", {"fresh"}, policies) == "fresh"

    def test_mixed(self):
        drop = lambda arm, d: 30.0 if (arm == "magnitude") is (d < 0.1) else 2.0  # noqa: E731
        verdict = summary(sweep(CROSSED["loss"], drop, deltas=(0.05, 0.2)))["verdict"]
        assert (verdict["kind"], verdict["deltas"]) == ("mixed", [0.05, 0.2])


class TestFloors:
    def test_both_arms_at_chance(self):
        rows = sweep(CROSSED["loss"], lambda arm, d: 50.0 if d > 0.1 else (20.0 if arm == "magnitude" else 2.0))
        found = summary(rows)
        assert found["verdict"]["deltas"] == [0.05, 0.1]
        unusable = [d for d in found["verdict"]["by_delta"] if not d["usable"]]
        assert {d["delta"] for d in unusable} == {0.2}
        for c in found["contrasts"]:
            at_floor = c["task"] == "pairs" and c["delta"] == 0.2
            assert (c["ci_simultaneous"] is None) or not at_floor
            assert ("floor" in c.get("why", "")) is at_floor

    def test_one_arm_at_chance_is_usable(self):
        rows = sweep(CROSSED["loss"], lambda arm, d: 60.0 if arm == "magnitude" else 2.0, deltas=(0.2,))
        assert summary(rows)["verdict"]["kind"] == "crossed"

    def test_loss_at_the_unigram_cross_entropy(self):
        rows = sweep(lambda arm, d: 6.0 * d / 0.1 + (arm == "angular"), CROSSED["drop"])
        assert summary(rows, unigram_nll=7.0)["verdict"]["kind"] == "uninformative"
        assert summary(rows, unigram_nll=15.0)["verdict"]["deltas"] == [0.05, 0.1]

    def test_nothing_usable(self):
        verdict = summary(sweep(CROSSED["loss"], lambda arm, d: 50.0, n_pairs=60))["verdict"]
        assert (verdict["kind"], verdict["deltas"]) == ("uninformative", [])

    @pytest.mark.parametrize(("more", "task"), [({"clean_accuracy": 0.5}, "pairs"), ({}, "loss")])
    def test_clean_score_at_its_floor(self, more, task):
        rows = sweep(CROSSED["loss"], by_arm(10.0, 1.0), n_pairs=60, **more)
        found = summary(rows, unigram_nll=4.0 if task == "loss" else 99.0)
        assert found["verdict"]["kind"] == "uninformative"
        why = found["verdict"]["why"]
        if task == "pairs":
            low, high = found["baseline"]["pairs"]["ci95"]
            assert f"{low:.1f} to {high:.1f} points on 60 pairs, reaches chance (50)" in why
        else:
            low, high = found["baseline"]["loss"]["nll"]["ci95"]
            assert f"{low:.2f} to {high:.2f} nats per token on 40 texts, reaches the unigram" in why
        of_claim = found["claims"][0 if task == "loss" else 1]["why"]
        assert why.removeprefix("the clean score is at the floor: ") in of_claim
        status = {c["id"]: c["status"] for c in found["claims"]}
        assert status["C1" if task == "loss" else "C2"] == "inconclusive"

    def test_clean_score_below_chance(self):
        rows = sweep(CROSSED["loss"], by_arm(10.0, 1.0), n_pairs=60, clean_accuracy=0.1)
        assert "60 pairs, lies below chance (50)" in summary(rows)["verdict"]["why"]

    def test_unknown_unigram_is_said(self):
        found = summary(sweep(CROSSED["loss"], None, n_texts=5), unigram_nll=None)
        assert any("unigram" in w for w in found["warnings"])


class TestUnigram:
    def test_by_hand(self):
        # vocabulary 3; item [0, 1] is predicted from [0]: p = 2/4, 1/4; item [0] from [0, 1]: p = 2/5
        expected = -(math.log(2 / 4) + math.log(1 / 4) + math.log(2 / 5)) / 3
        assert unigram_cross_entropy([[0, 1], [0]], 3) == pytest.approx(expected)

    def test_brute_force(self):
        rng = np.random.default_rng(0)
        items = [rng.integers(0, 20, n).tolist() for n in (5, 9, 1, 0, 30)]
        total = 0.0
        for i, item in enumerate(items):
            rest = [t for j, other in enumerate(items) if j != i for t in other]
            total -= sum(math.log((rest.count(t) + 1) / (len(rest) + 20)) for t in item)
        assert unigram_cross_entropy(items, 20) == pytest.approx(total / 45)

    def test_uniform_tokens_cost_the_logarithm_of_the_vocabulary(self):
        assert unigram_cross_entropy([[7]], 50) == pytest.approx(math.log(50))

    @pytest.mark.parametrize(("items", "vocabulary"), [([], 5), ([[], []], 5), ([[5]], 5), ([[-1]], 5)])
    def test_refused(self, items, vocabulary):
        with pytest.raises(UsageError):
            unigram_cross_entropy(items, vocabulary)


class TestClaims:
    def claims(self, rows, preset="matched", **more):
        return {c["id"]: c for c in summary(rows, preset=preset, **more)["claims"]}

    def test_all_are_listed(self):
        claims = self.claims(sweep(**CROSSED))
        assert list(claims) == [f"C{k}" for k in range(1, 10)]
        published = {"C1": 42.9, "C2": 18.8, "C3": 0.132, "C4": 0.162, "C5": 3.18, "C6": 51.9, "C9": 56.8}
        assert {c.id: c.paper for c in CLAIMS if c.paper is not None} == published
        for name, needs in (
            ("C3", "repair"),
            ("C4", "repair"),
            ("C5", "propagation"),
            ("C6", "probing"),
            ("C7", "probing"),
        ):
            assert claims[name]["status"] == "not_run"
            assert claims[name]["why"].startswith(f"{needs} was not run")
        assert "compare.json" in claims["C8"]["why"]

    def test_reasons_of_the_caller(self):
        claims = self.claims(sweep(**CROSSED), not_run={"C3": "attention could not be verified"})
        assert claims["C3"]["why"] == "attention could not be verified"

    def test_replicates(self):
        claims = self.claims(sweep(**CROSSED))
        assert (claims["C1"]["status"], claims["C1"]["delta"]) == ("replicates", 0.05)
        assert "at delta 0.05 (1 of 1 comparisons)" in claims["C1"]["why"]
        assert "the order, not the size" in claims["C1"]["why"]
        assert claims["C1"]["measured"] == pytest.approx(3.0, rel=0.1)
        assert claims["C1"]["ci95"][0] < claims["C1"]["measured"] < claims["C1"]["ci95"][1]
        assert (claims["C2"]["status"], claims["C2"]["delta"]) == ("replicates", 0.1)
        assert claims["C2"]["measured"] == pytest.approx(18.0, abs=6.0)
        assert claims["C1"]["size_agrees"] is None

    def test_contradicts(self):
        claims = self.claims(sweep(by_arm(0.3, 0.1), by_arm(2.0, 20.0)))
        assert (claims["C1"]["status"], claims["C2"]["status"]) == ("contradicts", "contradicts")

    def test_equal_arms_contradict_when_precise(self):
        claims = self.claims(sweep(by_arm(0.2, 0.2), None, noise=0.02))
        assert claims["C1"]["status"] == "contradicts"
        assert "band" in claims["C1"]["why"]

    def test_pair_policies_must_agree(self):
        claims = self.claims(sweep(**CROSSED, drop_under={"matched-common": by_arm(2.0, 20.0)}))
        assert claims["C2"]["status"] == "inconclusive"
        assert "disagree" in claims["C2"]["why"]

    def test_not_measured(self):
        claims = self.claims(sweep(CROSSED["loss"], None, n_texts=5))
        assert (claims["C2"]["status"], claims["C2"]["measured"]) == ("not_run", None)
        assert "pairs" in claims["C2"]["why"]

    @pytest.mark.parametrize("model", ["EleutherAI/pythia-410m", "/models/pythia-410m/", "EleutherAI/pythia-410m@main"])
    def test_size_agrees_in_the_published_setting(self, model):
        absolute = {"preset": "paper", "delta_mode": "absolute", "deltas": (1.0, 5.0)}
        loss = lambda arm, d: 0.01 * d * (42.9 if arm == "angular" else 1.0)  # noqa: E731
        drop = lambda arm, d: 4.0 * d if arm == "magnitude" else 0.3 * d  # noqa: E731
        rows = sweep(loss, drop, **absolute, noise=0.02)
        claims = self.claims(rows, preset="paper", model=model)
        assert (claims["C1"]["delta"], claims["C1"]["size_agrees"]) == (1.0, True)
        assert (claims["C2"]["delta"], claims["C2"]["size_agrees"]) == (5.0, True)
        assert claims["C2"]["measured"] == pytest.approx(18.5, abs=6.0)

    def test_size_disagrees(self):
        rows = sweep(by_arm(0.01, 0.02), None, preset="paper", delta_mode="absolute", deltas=(1.0,))
        found = summarise(rows, model="pythia-410m", preset="paper", policies=POLICIES["paper"])
        assert found["claims"][0]["size_agrees"] is False
        assert found["claims"][0]["status"] == "replicates"  # order, not size
        other = summarise(rows, model="pythia-1.4b", preset="paper", policies=POLICIES["paper"])
        assert other["claims"][0]["size_agrees"] is None

    @pytest.mark.parametrize(
        ("values", "band", "status"),
        [
            ([5.0, 0.0], [False, True], "replicates"),
            ([-5.0, 0.0], [False, True], "contradicts"),
            ([5.0, -5.0], [False, False], "inconclusive"),
            ([0.5, 0.0], [False, True], "inconclusive"),
            ([0.5, 0.0], [True, True], "contradicts"),
            ([2.1, 0.0], [False, False], "inconclusive"),  # p 0.019: not after Holm over two
            ([2.1], [False], "replicates"),
        ],
    )
    def test_order(self, values, band, status):
        assert order_status([Estimate(v, 1.0, 100.0) for v in values], band)[0] == status

    def test_reference_delta(self):
        assert reference_delta([0.02, 0.05, 0.2], "relative") in (0.05, 0.2)
        assert reference_delta([0.02, 0.08, 0.2], "relative") == 0.08
        assert reference_delta([1.0, 4.0, 10.0], "absolute") == 4.0


class TestHostileRows:
    @pytest.mark.parametrize("preset", ["matched", "paper", "notebook"])
    @pytest.mark.parametrize(
        "shape",
        [
            {"n_texts": 1, "n_pairs": 1},
            {"n_texts": 2, "n_pairs": 2, "seeds": 1},
            {"deltas": (0.1,), "seeds": 1},
            {"loss": lambda arm, d: 0.0, "drop": lambda arm, d: 0.0, "noise": 0.0},
            {"drop": lambda arm, d: 100.0, "clean_accuracy": 1.0},
            {"loss": lambda arm, d: -0.5, "noise": 0.0},
            {"loss": lambda arm, d: 1e250},
            {"clean_accuracy": 0.0},
        ],
        ids=["one item", "two items", "one seed", "no damage", "all lost", "negative", "huge", "all wrong"],
    )
    def test_finite_or_null_and_never_of_zero_width(self, preset, shape):
        rows = sweep(**{**CROSSED, "n_texts": 6, "n_pairs": 6, **shape}, preset=preset, phenomena=("a", "b"))
        check_plain(summary(rows, preset=preset))

    def test_all_ties(self):
        items = [pair(f"i{k}", -3.0, -3.0) for k in range(5)]
        rows = items + [moved(x, arm, 0.1) for x in items for arm in ("angular", "magnitude")]
        found = summary(frame(rows))
        check_plain(found)
        assert (found["baseline"]["pairs"]["accuracy"], found["baseline"]["pairs"]["ties"]) == (50.0, 5)

    def test_all_infeasible(self):
        items = [text(f"i{k}", 10.0 + k) for k in range(5)]
        left = {"infeasible": 10, "realised_delta_mean": None, "kl": 0.0}
        rows = items + [moved(x, arm, 20.0, **left) for x in items for arm in ("angular", "magnitude")]
        found = summary(frame(rows))
        check_plain(found)
        assert all((c["infeasible_share"], c["realised_delta_mean"]) == (1.0, None) for c in found["cells"])
        assert any("100.0%" in w for w in found["warnings"])

    def test_no_rows_only_clean_rows_one_arm_only(self):
        items = [text(f"i{k}", 10.0 + k) for k in range(3)]
        for rows in (
            [],
            items,
            items + [c for x in items for c in controls(x)],
            [*items, moved(items[0], "angular", 0.1)],
        ):
            found = summary(frame(rows), skipped=[{"experiment": "sweep", "what": "pairs", "why": "not given"}])
            check_plain(found)
            assert found["verdict"]["kind"] == "inconclusive"
            assert found["contrasts"] == []


class TestSummary:
    def test_shape(self):
        found = summary(sweep(**CROSSED, n_texts=5, n_pairs=5), missing_units=3, complete=False, warnings=["w"])
        keys = "schema model preset delta_mode complete missing_units policies baseline cells contrasts claims verdict"
        assert list(found) == [*keys.split(), "skipped", "warnings"]
        assert (found["schema"], found["missing_units"], found["complete"]) == (1, 3, False)
        assert found["warnings"][0] == "w"
        cell = {"experiment", "task", "arm", "delta", "layers", "positions", "policy_id", "measure", "mean", "ci95"}
        cell |= {"n_items", "n_seeds", "infeasible_share", "realised_delta_mean"}
        contrast = {
            "experiment",
            "task",
            "measure",
            "delta",
            "layers",
            "positions",
            "policy_id",
            "kind",
            "value",
            "ci95",
        }
        assert all(cell <= set(c) for c in found["cells"])
        assert all(contrast | {"defined"} <= set(c) for c in found["contrasts"])
        assert all(
            {"id", "paper", "measured", "ci95", "status", "size_agrees", "why"} <= set(c) for c in found["claims"]
        )
        assert {"kind", "deltas", "by_pair_policy", "why"} <= set(found["verdict"])

    def test_order_of_rows_does_not_matter(self):
        rows = sweep(**CROSSED, n_texts=6, n_pairs=6)
        shuffled = rows.sample(frac=1.0, random_state=0)
        a, b = summary(rows), summary(shuffled)
        assert [c["mean"] for c in a["cells"]] == pytest.approx([c["mean"] for c in b["cells"]])
        assert a["verdict"]["kind"] == b["verdict"]["kind"]

    def test_more_missing_units_only_shrink_the_counts(self):
        rows = sweep(**CROSSED, n_texts=6, n_pairs=6)
        partial = rows[~((rows["seed"] == 1) & (rows["item"] == "t0"))]
        found = summary(partial, complete=False)
        check_plain(found)
        assert all(c["n_items"] == 6 for c in found["cells"])


def check_plain(found):
    """Everything serialises without NaN, every interval is ordered, wider than zero, or missing with a reason."""
    json.dumps(found, allow_nan=False)
    for entry in [*found["cells"], *found["contrasts"], *found["claims"], *found["verdict"].get("by_delta", [])]:
        for name in ("ci95", "ci_simultaneous", "ci95_bca"):
            if entry.get(name) is not None:
                assert entry[name][0] < entry[name][1], entry
        if "ci95" in entry and entry["ci95"] is None:
            assert entry["why"], entry
