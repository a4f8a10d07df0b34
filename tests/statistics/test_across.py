"""`compare.json` from whole runs: planted differences come back, unlike runs are refused or named."""

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from runs import facts
from synthetic_rows import by_arm

from polarlens.errors import UsageError
from polarlens.statistics.across import RunFacts, compare_runs

RUN_KEYS = {"model", "path", "norm_kind", "n_params", "baseline", "verdict", "claims"}
SMALL = {"n_texts": 30, "n_pairs": 40, "seeds": 1, "deltas": (0.1, 0.2)}


@pytest.fixture(scope="module")
def layernorm() -> RunFacts:
    return facts("ln", by_arm(0.1, 0.6), by_arm(30.0, 2.0), seed=3, **SMALL)


@pytest.fixture(scope="module")
def rmsnorm() -> RunFacts:
    return facts("rms", by_arm(0.4, 0.1), by_arm(2.0, 2.0), norm_kind="rmsnorm", seed=3, noise=0.05, **SMALL)


def changed(run: RunFacts, name: str = "other", **settings: Any) -> RunFacts:
    """The same run under another name, with other settings in its manifest."""
    about = copy.deepcopy(run.manifest)
    about["settings"].update(settings)
    return replace(run, name=name, manifest=about)


def test_planted_differences_come_back(layernorm, rmsnorm):
    document = compare_runs([layernorm, rmsnorm])
    json.dumps(document, allow_nan=False)
    assert document["schema"] == 1
    assert all(run.keys() >= RUN_KEYS for run in document["runs"])
    assert [run["model"] for run in document["runs"]] == ["ln", "rms"]
    assert document["runs"][0]["verdict"] == layernorm.summary["verdict"]
    at = {
        (one["task"], one["kind"], one["arm"]): one
        for one in document["contrasts"]
        if one["delta"] == 0.1 and one["policy_id"] in ("matched", "matched-independent")
    }
    assert set(at) == {
        *(("loss", "difference", arm) for arm in (None, "angular", "magnitude")),
        *(("pairs", "difference", arm) for arm in (None, "angular", "magnitude")),
        ("loss", "ratio", None),
    }
    assert all(one["paired"] for one in at.values())
    for key, truth in (
        (("loss", "difference", "angular"), 0.5),
        (("loss", "difference", "magnitude"), -0.3),
        (("loss", "difference", None), 0.8),
        (("loss", "ratio", None), 6.0 / 0.25),
        (("pairs", "difference", None), 28.0),
    ):
        low, high = at[key]["ci_simultaneous"]
        assert low < truth < high, key
        assert at[key]["p_holm"] < 0.01, key
    assert [(claim["id"], claim["status"]) for claim in document["claims"]] == [("C8", "replicates"), ("C9", "not_run")]


def test_three_runs_are_compared_two_by_two(layernorm, rmsnorm):
    third = changed(layernorm, "third")
    document = compare_runs([layernorm, rmsnorm, third])
    assert list(dict.fromkeys((one["model_a"], one["model_b"]) for one in document["contrasts"])) == [
        ("ln", "rms"),
        ("ln", "third"),
        ("rms", "third"),
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"preset": "paper"}, "preset matched and paper"),
        ({"delta_mode": "site"}, "delta_mode relative and site"),
    ],
)
def test_unlike_runs_are_refused_alone_and_named_beside_others(layernorm, rmsnorm, settings, said):
    unlike = changed(layernorm, **settings)
    with pytest.raises(UsageError, match=f"ln and other: not compared: {said}"):
        compare_runs([layernorm, unlike])
    document = compare_runs([layernorm, rmsnorm, unlike])
    assert {(one["model_a"], one["model_b"]) for one in document["contrasts"]} == {("ln", "rms")}
    assert f"rms and other: not compared: {said}" in document["warnings"]


def test_texts_cut_at_another_length_leave_the_pairs(layernorm):
    document = compare_runs([layernorm, changed(layernorm, max_tokens=32)])
    assert {one["task"] for one in document["contrasts"]} == {"pairs"}
    assert "the task loss is not compared: texts were cut differently (max_tokens 64 and 32)" in document["warnings"][0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m["settings"].update(dtype="bfloat16"), "dtype float32 and bfloat16"),
        (lambda m: m["settings"].update(bos=None), "a BOS token stands before the items of one run only"),
        (lambda m: m["tokenizer"].update(sha256="t1"), "their tokenizers differ"),
        (lambda m: m["model"]["source"].update(quantisation="Q4_1"), "other: the weights are dequantised from Q4_1"),
    ],
)
def test_what_lies_between_runs_is_a_warning(layernorm, change, said):
    other = changed(layernorm)
    assert not compare_runs([layernorm, other])["warnings"]
    change(other.manifest)
    assert any(said in warning for warning in compare_runs([layernorm, other])["warnings"])


def test_one_absolute_distance_at_two_scales_is_a_warning():
    one = facts("a", by_arm(0.1, 0.6), delta_mode="absolute", settings={"delta_mode": "absolute"}, **SMALL)
    near, far = changed(one, "near"), changed(one, "far")
    for run, factor in ((near, 1.4), (far, 1.6)):
        for block in run.manifest["state_profile"]["blocks"]:
            block["norm_median"] *= factor
    assert not compare_runs([one, near])["warnings"]
    (warning,) = compare_runs([one, far])["warnings"]
    assert "the median norms at the perturbed blocks are 16.5 and 26.4" in warning  # blocks 8 to 15: 5 + 11.5


def test_a_policy_of_one_name_and_two_meanings_is_refused(layernorm):
    other = changed(layernorm)
    other.manifest["policies"] = copy.deepcopy(other.manifest["policies"])
    other.manifest["policies"]["matched"]["plane"] = "covariance"
    with pytest.raises(UsageError, match="the noise policy matched does not mean the same in both"):
        compare_runs([layernorm, other])


def test_no_shared_delta_or_task_is_refused(layernorm):
    deltas = facts("d", by_arm(0.1, 0.6), by_arm(5.0, 5.0), **SMALL | {"deltas": (0.3,)})
    with pytest.raises(UsageError, match="the task loss has no delta and positions in both"):
        compare_runs([layernorm, deltas])
    loss, pairs = facts("l", by_arm(0.1, 0.6), **SMALL), facts("p", None, by_arm(5.0, 5.0), **SMALL)
    with pytest.raises(UsageError, match="no task in common"):
        compare_runs([loss, pairs])


def test_what_only_one_run_has_is_named(layernorm):
    more = facts(
        "more", by_arm(0.1, 0.6), **SMALL | {"deltas": (0.1, 0.5), "positions": ("all", "no-sinks"), "n_texts": 50}
    )
    document = compare_runs([layernorm, more])
    assert {(one["delta"], one["positions"]) for one in document["contrasts"]} == {(0.1, "all")}
    said = "\n".join(document["warnings"])
    assert "compared on the 30 texts in common, of 30 and 50" in said
    assert "delta 0.2, 0.5 in one of them only" in said
    assert "positions no-sinks in one of them only" in said


def test_other_texts_are_independent_samples(layernorm):
    other = replace(layernorm, name="other", rows=layernorm.rows.assign(item=layernorm.rows["item"] + "x"))
    document = compare_runs([layernorm, other])
    assert not any(one["paired"] for one in document["contrasts"])
    assert any("0 texts in common of 30 and 30: compared as independent samples" in w for w in document["warnings"])


def test_an_incomplete_run_is_named(layernorm):
    summary = {**layernorm.summary, "complete": False, "missing_units": 3}
    document = compare_runs([layernorm, replace(layernorm, name="half", summary=summary)])
    assert "half: the run is incomplete, 3 units of work are missing" in document["warnings"]


def test_blocks_one_at_a_time_need_the_same_blocks(layernorm):
    one, other = changed(layernorm, "each"), changed(layernorm, "deeper")
    one.manifest["wanted"] = {"loss": {"layers": [[0], [1]]}}
    other.manifest["wanted"] = {"loss": {"layers": [[0], [1], [2]]}}
    with pytest.raises(UsageError, match="do not have the same ones"):
        compare_runs([one, other])


def test_different_presets_say_nothing_about_norms(layernorm, rmsnorm):
    paper = changed(rmsnorm, "paper", preset="paper")
    paper = replace(paper, summary={**paper.summary, "preset": "paper"})
    document = compare_runs([layernorm, rmsnorm, paper])
    c8 = document["claims"][0]
    assert (c8["id"], c8["status"], c8["why"]) == ("C8", "not_run", "the runs have different presets (matched, paper)")


def test_the_larger_model_answers_c9(layernorm, rmsnorm):
    about = copy.deepcopy(layernorm.manifest)
    about["model"]["n_params"] = 2_000_000_000
    claims = [
        {**claim, "status": "replicates"} if claim["id"] == "C3" else claim for claim in layernorm.summary["claims"]
    ]
    large = replace(layernorm, name="large", manifest=about, summary={**layernorm.summary, "claims": claims})
    c9 = compare_runs([rmsnorm, large])["claims"][1]
    assert (c9["id"], c9["status"]) == ("C9", "replicates")
    assert c9["measured"] == next(one for one in claims if one["id"] == "C1")["measured"]
