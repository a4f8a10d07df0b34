"""C8 and C9 from several models' summaries, against the rule written out as a table."""

import json

import pytest

from polarlens.statistics.claims_across import ModelFacts, c8, c9, loss_differences


def difference(delta, value, half=0.05, **more):
    return {
        "experiment": "sweep", "task": "loss", "measure": "nll", "kind": "difference", "delta": delta,
        "layers": "8-15", "positions": "all", "policy_id": "matched", "value": value,
        "ci95": [value - half, value + half], "p_holm": 0.01, "defined": True,
    } | more  # fmt: skip


def model(name, norm_kind, *values, n_params=4_000_000, deltas=(0.05, 0.1), **more):
    contrasts = [difference(d, v) for d, v in zip(deltas, values, strict=False)]
    return ModelFacts(name, norm_kind, n_params, **{"contrasts": contrasts, "claims": [], **more})


class TestC8:
    @pytest.mark.parametrize(
        ("layernorm", "rmsnorm", "status"),
        [
            ((0.2, 0.3), (-0.2, -0.3), "replicates"),
            ((0.2, 0.3), (0.2, 0.3), "contradicts"),
            ((-0.2, -0.3), (0.2, 0.3), "contradicts"),  # whatever LayerNorm does
            ((0.2, 0.3), (-0.2, 0.3), "inconclusive"),
            ((0.2, 0.3), (0.2, 0.01), "inconclusive"),  # 0.01 +- 0.05 has no sign
            ((0.2, -0.3), (-0.2, -0.3), "inconclusive"),
            ((0.2, 0.01), (-0.2, -0.3), "inconclusive"),
        ],
    )
    def test_rule(self, layernorm, rmsnorm, status):
        models = [model(f"ln{v}", "layernorm", v) for v in layernorm]
        models += [model(f"rms{v}", "rmsnorm", v) for v in rmsnorm]
        found = c8(models)
        json.dumps(found, allow_nan=False)
        assert (found["id"], found["status"], found["delta"]) == ("C8", status, 0.05)
        assert len(found["by_model"]) == 4

    def test_smallest_shared_delta_decides(self):
        a = model("a", "layernorm", 0.2, 0.2, 0.2, deltas=(0.02, 0.05, 0.1))
        b = model("b", "rmsnorm", -0.2, 0.2, deltas=(0.05, 0.1))
        assert (c8([a, b])["status"], c8([a, b])["delta"]) == ("replicates", 0.05)
        b = model("b", "rmsnorm", 0.2, -0.2, deltas=(0.05, 0.1))
        assert c8([a, b])["status"] == "contradicts"

    def test_not_run_with_its_reason(self):
        ln, rms = model("a", "layernorm", 0.2), model("b", "rmsnorm", -0.2)
        assert "norm kinds given: none" in c8([])["why"]
        assert "norm kinds given: layernorm" in c8([ln, model("c", "unknown", 0.2)])["why"]
        assert "share no delta" in c8([ln, model("b", "rmsnorm", -0.2, deltas=(0.3,))])["why"]
        apart = [model("a", "layernorm", 0.2, delta_mode="relative"), model("b", "rmsnorm", -0.2, delta_mode="site")]
        assert "different units (relative, site)" in c8(apart)["why"]
        assert all(c8(group)["status"] == "not_run" for group in ([], [ln], [rms], apart))
        assert "norm kind unknown: c" in c8([ln, rms, model("c", "unknown", 0.2)])["why"]

    def test_which_contrast_is_read(self):
        chosen = difference(0.1, 0.3)
        others = [
            difference(0.1, -9.0, positions="no-sinks"),
            difference(0.1, -9.0, measure="nll_item"),
            difference(0.1, -9.0, kind="ratio"),
            difference(0.1, -9.0, experiment="audit"),
            difference(0.02, -9.0, p_holm=None),  # not usable
            difference(0.01, -9.0, ci95=None),
        ]
        facts = ModelFacts("a", "layernorm", 1, [*others, chosen], [])
        assert loss_differences(facts) == {0.1: chosen}
        blocks = [difference(0.1, v, layers=str(block)) for block, v in ((10, 3.0), (2, 1.0), (9, 2.0))]
        assert loss_differences(ModelFacts("a", "layernorm", 1, blocks, []))[0.1]["value"] == 2.0
        per_item = ModelFacts("a", "layernorm", 1, others, [], loss_measure="nll_item")
        assert loss_differences(per_item)[0.1]["measure"] == "nll_item"


def sized(name, n_params, c1, c3, measured=50.0):
    claims = [{"id": "C1", "status": c1, "measured": measured, "ci95": [40.0, 60.0], "delta": 1.0}]
    return ModelFacts(name, "layernorm", n_params, [], [*claims, {"id": "C3", "status": c3}])


class TestC9:
    @pytest.mark.parametrize(
        ("statuses", "status"),
        [
            ([("replicates", "replicates")], "replicates"),
            ([("replicates", "replicates")] * 2, "replicates"),
            ([("replicates", "inconclusive")], "inconclusive"),
            ([("replicates", "replicates"), ("replicates", "inconclusive")], "inconclusive"),
            ([("replicates", "contradicts")], "contradicts"),
            ([("contradicts", "not_run")], "contradicts"),
            ([("replicates", "contradicts"), ("replicates", "replicates")], "inconclusive"),
            ([("replicates", "not_run")], "not_run"),
            ([("replicates", "not_run"), ("replicates", "replicates")], "inconclusive"),
        ],
    )
    def test_rule(self, statuses, status):
        large = [sized(f"m{k}", 1_400_000_000 + k, *pair) for k, pair in enumerate(statuses)]
        small = sized("small", 999_999_999, "contradicts", "contradicts")
        found = c9([small, *large])
        json.dumps(found, allow_nan=False)
        assert (found["status"], len(found["by_model"])) == (status, len(statuses))

    def test_no_large_model(self):
        found = c9([sized("small", 999_999_999, "replicates", "replicates"), sized("x", None, "replicates", "not_run")])
        assert (found["status"], found["measured"]) == ("not_run", None)
        assert "1e9 parameters" in found["why"]

    def test_number_of_the_model_nearest_in_size(self):
        models = [sized(n, s, "replicates", "replicates", m) for n, s, m in (("a", 7e9, 1.0), ("b", 1.1e9, 2.0))]
        found = c9(models)
        assert (found["measured"], found["ci95"], found["delta"], found["paper"]) == (2.0, [40.0, 60.0], 1.0, 56.8)
        assert "that of b" in found["why"]
