"""Rows -> damages -> cells, contrasts, baseline: worked by hand on a few rows."""

import math

import numpy as np
import pytest
import scipy.stats
from synthetic_rows import POLICIES, by_arm, controls, frame, moved, pair, sweep, text

from polarlens.statistics import summarise
from polarlens.statistics.damage import damages


def summary(rows, preset="matched", **more):
    return summarise(rows, model="m", preset=preset, policies=POLICIES[preset], **{"unigram_nll": 99.0, **more})


def pick(entries, **wanted):
    """The entries with these values; a key that an entry lacks counts as None."""
    return [e for e in entries if all(e.get(k) == v for k, v in wanted.items())]


def one(entries, **wanted):
    (entry,) = pick(entries, **{"phenomenon": None, **wanted})
    return entry


TWO_TEXTS = [text("a", 14.0, 7), text("b", 6.0, 1)]


class TestLoss:
    def test_damage_per_token_and_per_item(self):
        rows = [*TWO_TEXTS, moved(TWO_TEXTS[0], "angular", 0.1, nll=21.0), moved(TWO_TEXTS[1], "angular", 0.1, nll=8.0)]
        cells = summary(frame(rows))["cells"]
        assert one(cells, measure="nll")["mean"] == pytest.approx(9 / 8)
        assert one(cells, measure="nll_item")["mean"] == pytest.approx((7 / 7 + 2 / 1) / 2)
        assert pick(cells, measure="kl") == []

    def test_draws_are_averaged_within_the_item(self):
        a = TWO_TEXTS[0]
        draws = [
            moved(a, "angular", 0.1, nll=14.0 + d, seed=k, sign=s) for k, s, d in ((0, 1, 1), (0, -1, 3), (1, 1, 5))
        ]
        table = damages(frame([a, *draws]))
        assert table.arms[0].values["nll"].tolist() == [[2.0, 5.0]]
        assert one(summary(frame([a, *draws]))["cells"], measure="nll")["mean"] == pytest.approx(3.5 / 7)

    def test_same_text_in_two_specs_is_two_items_in_one_cluster(self):
        again = {**TWO_TEXTS[0], "dataset": "other", "nll": 20.0}
        rows = [
            TWO_TEXTS[0],
            again,
            moved(TWO_TEXTS[0], "angular", 0.1, nll=15.0),
            moved(again, "angular", 0.1, nll=23.0),
        ]
        cell = one(summary(frame(rows))["cells"], measure="nll")
        assert (cell["mean"], cell["n_items"], cell["n_clusters"], cell["ci95"]) == (pytest.approx(4 / 14), 2, 1, None)
        assert "one cluster" in cell["why"]

    def test_baseline(self):
        loss = summary(frame(TWO_TEXTS))["baseline"]["loss"]
        assert loss["nll"]["mean"] == 2.5
        assert loss["nll_item"]["mean"] == 4.0
        assert (loss["n_items"], loss["n_tokens"]) == (2, 8)
        half = 2.0 * scipy.stats.t.ppf(0.975, 1)
        assert loss["nll_item"]["ci95"] == pytest.approx([4 - half, 4 + half])
        assert summary(frame(TWO_TEXTS))["baseline"]["pairs"] is None

    def test_tokens_taking_part(self):
        a = TWO_TEXTS[0]
        draws = [
            moved(a, "angular", 0.1, seed=0, eligible=10, infeasible=4, moved=6, realised_delta_mean=1.0),
            moved(a, "angular", 0.1, seed=1, eligible=10, infeasible=2, moved=8, realised_delta_mean=2.0),
        ]
        found = summary(frame([a, *draws]))
        cell = one(found["cells"], measure="nll")
        assert cell["infeasible_share"] == pytest.approx(0.3)
        assert cell["realised_delta_mean"] == pytest.approx((6 * 1 + 8 * 2) / 14)
        assert cell["n_seeds"] == 2
        assert any("30.0%" in w and "left clean" in w for w in found["warnings"])

    def test_the_mean_distance_counts_what_moved_although_infeasible(self):
        a = TWO_TEXTS[0]
        draws = [
            moved(a, "angular", 20.0, seed=0, infeasible=10, moved=10, saturated=1, realised_delta_mean=3.0),
            moved(a, "angular", 20.0, seed=1, infeasible=10, moved=5, saturated=0, realised_delta_mean=6.0),
        ]
        found = summary(frame([a, *draws]))
        assert one(found["cells"], measure="nll")["realised_delta_mean"] == pytest.approx(4.0)
        assert any("up to 50.0% of the rotated rows" in w for w in found["warnings"])

    def test_nothing_is_estimated_where_no_token_moved(self):
        a, b = TWO_TEXTS
        rows = [moved(x, "angular", 9.0, infeasible=10, moved=0, realised_delta_mean=None) for x in (a, b)]
        found = summary(frame([a, b, *rows]))
        cell = one(found["cells"], measure="nll")
        assert (cell["mean"], cell["ci95"], cell["infeasible_share"]) == (None, None, 1.0)
        assert "no token could be moved" in cell["why"]
        assert found["contrasts"] == []

    def test_infeasible_tokens_that_were_perturbed_all_the_same(self):
        a = TWO_TEXTS[0]
        rows = frame([a, moved(a, "angular", 20.0, infeasible=5, policy_id="notebook")])
        (warning,) = (w for w in summary(rows, preset="notebook")["warnings"] if "50.0%" in w)
        assert "perturbed all the same" in warning
        fine = frame([a, moved(a, "angular", 20.0, eligible=100, infeasible=1)])
        assert summary(fine)["warnings"] == []  # 1 % is not above 1 %


class TestPairs:
    def test_accuracy_and_margin(self):
        a, b = pair("a", -5.0, -4.4), pair("b", -3.0, -4.0)  # the sum decides: a is wrong, b right
        c = pair("c", -2.0, -2.0)  # a tie
        rows = [a, b, c, *(moved(x, "magnitude", 0.1, logp_good=-9.0, logp_bad=-8.0) for x in (a, b, c))]
        found = summary(frame(rows))
        assert found["baseline"]["pairs"]["accuracy"] == 50.0
        assert found["baseline"]["pairs"]["ties"] == 1
        assert one(found["cells"], measure="accuracy")["mean"] == 50.0
        assert one(found["cells"], measure="margin")["mean"] == pytest.approx((-0.6 + 1.0 + 0.0) / 3 + 1.0)

    def test_draws_count_one_by_one_not_their_average_margin(self):
        a = pair("a", -3.0, -4.0)
        rows = [a, *(moved(a, "angular", 0.1, logp_bad=bad, seed=k) for k, bad in enumerate((-2.9, -2.8, -2.9, -9.0)))]
        assert one(summary(frame(rows))["cells"], measure="accuracy")["mean"] == 75.0

    def test_without_a_discordant_item(self):
        items = [pair(f"i{k}", -1.0, -2.0) for k in range(60)]
        rows = items + [moved(x, arm, 0.1) for x in items for arm in ("angular", "magnitude")]
        found = summary(frame(rows))
        assert [c["ci95"] for c in pick(found["cells"], measure="accuracy")] == [pytest.approx([-5.0, 5.0])] * 2
        assert one(found["contrasts"], measure="accuracy", kind="difference")["ci95"] == pytest.approx([-5.0, 5.0])
        assert found["baseline"]["pairs"]["ci95"] == pytest.approx([95.0, 100.0])

    def test_unequal_token_counts(self):
        rows = frame([pair("a", -1.0, -2.0, n_tokens_good=6), pair("b", -1.0, -2.0), pair("c", -1.0, -2.0)])
        found = summary(rows)
        assert found["baseline"]["pairs"]["unequal_length"] == 1
        assert any("1 of 3 pairs (33.3%)" in warning for warning in found["warnings"])

    def test_clusters_of_the_pairs(self):
        """Pairs that share a verb are one cluster: the clustered t of the worked example."""
        values = [[0.9, 1, 1.1, 1, 1], [-0.5, -0.4, -0.6, -0.5, -0.5], [0.6, 0.7, 0.5, 0.6, 0.6], [-0.1, 0, 0.1, 0, 0]]
        items = [
            (pair(f"{c}{k}", -1.0, -9.0, cluster=f"verb{c}"), v) for c, r in enumerate(values) for k, v in enumerate(r)
        ]
        rows = [x for x, _ in items] + [moved(x, "magnitude", 0.1, logp_bad=-9.0 + v) for x, v in items]
        cell = one(summary(frame(rows))["cells"], measure="margin")
        assert (cell["mean"], cell["n_items"], cell["n_clusters"]) == (pytest.approx(0.275), 20, 4)
        half = 0.3301 * scipy.stats.t.ppf(0.975, 3)
        assert cell["ci95"] == pytest.approx([0.275 - half, 0.275 + half], abs=2e-4)


class TestContrasts:
    def test_signs(self):
        """Angular - magnitude for losses, magnitude - angular for accuracy and margin, ratio angular / magnitude."""
        rows = sweep(by_arm(0.1, 0.3), by_arm(20.0, 2.0), deltas=(0.1,))
        found = summary(rows)
        cells = {(c["measure"], c["arm"], c["policy_id"]): c["mean"] for c in found["cells"] if c["delta"] > 0}
        for c in found["contrasts"]:
            a, m = (cells[c["measure"], arm, c["policy_id"]] for arm in ("angular", "magnitude"))
            if c["kind"] == "ratio":
                assert not c["defined"] or c["value"] == pytest.approx(a / m)
            else:
                assert c["value"] == pytest.approx(a - m if c["task"] == "loss" else m - a)
        assert one(found["contrasts"], measure="nll", kind="difference")["value"] > 0
        assert one(found["contrasts"], measure="nll", kind="ratio")["value"] == pytest.approx(3.0, rel=0.1)

    def test_simultaneous_and_holm_over_the_deltas(self):
        found = summary(sweep(by_arm(0.1, 0.13), None, deltas=(0.05, 0.1, 0.2), noise=1.0, n_texts=12))
        series = pick(found["contrasts"], measure="nll", kind="difference")
        for c in series:
            se = (c["ci95"][1] - c["value"]) / scipy.stats.t.ppf(0.975, 11)
            half = se * scipy.stats.t.ppf(1 - 0.025 / 3, 11)
            assert c["ci_simultaneous"] == pytest.approx([c["value"] - half, c["value"] + half])
            assert c["ci95_bca"] == pytest.approx(c["ci95"], abs=1.5 * se)
        raw = [2 * scipy.stats.t.sf(abs(c["value"]) / ((c["ci95"][1] - c["value"]) / 2.201), 11) for c in series]
        assert min(c["p_holm"] for c in series) == pytest.approx(3 * min(raw), rel=1e-3)

    def test_only_common_items_are_compared(self):
        a, b, c = (text(name, 10.0) for name in "abc")
        rows = [a, b, c, moved(a, "angular", 0.1, nll=12.0), moved(b, "angular", 0.1, nll=15.0)]
        rows += [moved(b, "magnitude", 0.1, nll=11.0), moved(c, "magnitude", 0.1, nll=50.0)]
        contrast = one(summary(frame(rows))["contrasts"], measure="nll", kind="difference")
        assert (contrast["value"], contrast["n_items"]) == (pytest.approx(0.4), 1)

    def test_undefined_ratio_says_why(self):
        found = summary(sweep(lambda arm, delta: 0.5 if arm == "angular" else 0.0, None, deltas=(0.1,)))
        contrast = one(found["contrasts"], measure="nll", kind="ratio")
        assert (contrast["value"], contrast["ci95"], contrast["defined"]) == (None, None, False)
        assert "denominator" in contrast["why"]

    def test_phenomena(self):
        found = summary(sweep(None, by_arm(20.0, 2.0), phenomena=("irregular", "regular"), n_pairs=60))
        assert {c.get("phenomenon") for c in found["cells"]} == {None, "irregular", "regular"}
        named = pick(found["contrasts"], measure="accuracy", kind="difference", delta=0.1, policy_id="matched-common")
        assert [c["n_items"] for c in named] == [60, 30, 30]
        alone = summary(sweep(None, by_arm(20.0, 2.0), n_pairs=60))
        assert all("phenomenon" not in c for c in alone["cells"])

    def test_blocks_one_at_a_time_are_one_family(self):
        found = summary(sweep(by_arm(0.1, 0.13), None, layers=("2", "10"), deltas=(0.1, 0.2), n_texts=10, noise=1.0))
        series = pick(found["contrasts"], measure="nll", kind="difference")
        assert [(c["layers"], c["delta"]) for c in series] == [("2", 0.1), ("2", 0.2), ("10", 0.1), ("10", 0.2)]
        widths = [np.diff(c["ci_simultaneous"])[0] / np.diff(c["ci95"])[0] for c in series]
        assert widths == pytest.approx([scipy.stats.t.ppf(1 - 0.025 / 4, 9) / scipy.stats.t.ppf(0.975, 9)] * 4)


class TestSharedDraws:
    def rows(self, seeds):
        """The notebook's angular draws: a seed moves all items together."""
        rng = np.random.default_rng(0)
        push = rng.standard_normal(seeds)
        items = [text(f"i{k}", 40.0) for k in range(30)]
        rows = list(items)
        for k in range(seeds):
            for x in items:
                noise = rng.standard_normal(2)
                common = {"policy_id": "notebook", "seed": k}
                rows.append(moved(x, "angular", 0.1, nll=60.0 + 5 * push[k] + noise[0], **common))
                rows.append(moved(x, "magnitude", 0.1, nll=50.0 + noise[1], **common))
        return frame(rows)

    def test_the_seed_is_a_random_factor(self):
        found = summary(self.rows(5), preset="notebook")
        widths = {c["arm"]: np.diff(c["ci95"])[0] for c in pick(found["cells"], measure="nll")}
        assert widths["angular"] > 10 * widths["magnitude"]  # only the angular arm shares its draws
        difference = one(found["contrasts"], measure="nll", kind="difference")
        assert np.diff(difference["ci95"])[0] == pytest.approx(widths["angular"], rel=0.05)
        assert "ci95_bca" not in difference
        low, high = one(found["contrasts"], measure="nll", kind="ratio")["ci95"]
        assert low < 2.0 + 0.5 * np.random.default_rng(0).standard_normal(5).mean() < high

    def test_one_seed_has_no_interval(self):
        found = summary(self.rows(1), preset="notebook")
        cell = one(found["cells"], measure="nll", arm="angular")
        assert cell["ci95"] is None
        assert "one seed" in cell["why"]
        assert one(found["cells"], measure="nll", arm="magnitude")["ci95"] is not None
        contrast = one(found["contrasts"], measure="nll", kind="difference")
        assert (contrast["ci95"], contrast["p_holm"]) == (None, None)
        assert not one(found["contrasts"], measure="nll", kind="ratio", delta=0.1).get("ci95")


class TestControls:
    def test_exactly_zero_is_no_estimate(self):
        found = summary(sweep(by_arm(0.1, 0.2), by_arm(20.0, 2.0), n_texts=5, n_pairs=5))
        control = pick(found["cells"], delta=0.0)
        assert {c["measure"] for c in control} == {"nll", "nll_item", "kl", "accuracy", "margin"}
        assert {c["arm"] for c in control} == {"magnitude", "angular"}
        for c in control:
            assert (c["mean"], c["ci95"], c["n_seeds"]) == (0.0, None, 0)
            assert "control" in c["why"]
        assert not any("control" in warning for warning in found["warnings"])
        assert pick(found["contrasts"], delta=0.0) == []

    @pytest.mark.parametrize("change", [{"nll": 10.0000001}, {"kl": 1e-9}])
    def test_anything_else_is_a_warning(self, change):
        items = [text(f"i{k}", 10.0) for k in range(3)]
        rows = items + [c for x in items for c in controls(x)]
        rows[-1] = {**rows[-1], **change}
        assert any("control" in warning for warning in summary(frame(rows))["warnings"])


class TestRowsThatDoNotFit:
    def test_left_out_and_said(self):
        a, b = text("a", 10.0), text("b", 12.0)
        orphan = text("c", 9.0)
        rows = [a, b, moved(a, "angular", 0.1, nll=11.0), moved(b, "angular", 0.1, nll=math.inf)]
        rows += [moved(b, "angular", 0.1, nll=None, seed=1), moved(orphan, "angular", 0.1)]
        found = summary(frame(rows))
        assert one(found["cells"], measure="nll")["n_items"] == 1
        assert any(w.startswith("2 rows hold a number") for w in found["warnings"])
        assert any(w.startswith("1 rows have no clean row") for w in found["warnings"])

    def test_other_experiments_are_not_the_sweep(self):
        a = text("a", 10.0)
        rows = frame([a, moved(a, "angular", 0.1, nll=11.0), moved(a, "angular", 0.1, nll=99.0, experiment="audit")])
        assert one(summary(rows)["cells"], measure="nll")["mean"] == pytest.approx(0.1)
