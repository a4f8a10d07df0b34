"""The audit as an experiment of a run: which rows, the survival table, how a folder grows, the reference states."""

import hashlib

import numpy as np
import pytest
import torch
from made_runs import KEYS, RAN_ON, TEXTS, assert_same, parts, run, write_data

import polarlens as pl
from polarlens.errors import UsageError
from polarlens.perturbation.audit import audit_design
from tiny import save_tiny

REPAIRED = [*KEYS, "repair", "repair_layers"]
ALONE = RAN_ON | {"experiments": ["audit"], "seeds": 1}
DESIGN = audit_design(delta_mode="relative", n_layers=2)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return pl.load(str(save_tiny(tmp_path_factory.mktemp("model"), "llama", num_hidden_layers=4)))


@pytest.fixture(scope="module")
def done(lm, files, tmp_path_factory):
    """A folder of the sweep that is then extended by the audit."""
    out = tmp_path_factory.mktemp("run")
    run(lm, out=out, **files, **(ALONE | {"experiments": ["sweep"]}))
    return run(lm, out=out, **files, **ALONE)


def test_every_policy_has_both_arms(done):
    rows = done.table("audit")
    assert not rows.duplicated(REPAIRED).any()
    bare = rows[rows.repair.isna() & (rows.arm != "clean")]
    for task in ("loss", "pairs"):
        ran = set(bare[bare.task == task].groupby(["policy_id", "arm"]).groups)
        assert ran == {(one.id, arm) for one, arm in DESIGN.runs(task)}
    survival = done.summary["audit"]
    ids = [one.id for one in DESIGN.policies]
    for claim in ("C1", "C2", "verdict"):
        assert [e["policy_id"] for e in survival if e["claim"] == claim] == ids
    for claim in ("C3", "C4"):
        assert [e["policy_id"] for e in survival if e["claim"] == claim] == ["matched", "notebook"]
    assert done.failed == ()
    assert done.summary["complete"]


def test_rows_under_matched_are_the_sweeps(done):
    sweep, audit = done.table("sweep"), done.table("audit")
    bare = audit[audit.repair.isna()].drop(columns=["repair", "repair_layers"]).assign(experiment="sweep")
    for task, policy_id in (("loss", "matched"), ("pairs", "matched-common")):
        a = bare[(bare.task == task) & (bare.policy_id == "matched")].assign(policy_id=policy_id)
        b = sweep[
            (sweep.task == task) & (sweep.policy_id == policy_id) & (sweep.delta > 0) & (sweep.positions == "all")
        ]
        assert len(b) > 0
        assert_same(a, b, KEYS)


def test_c1_under_matched_is_the_runs_own(done):
    own = [
        c
        for c in done.summary["contrasts"]
        if (c["experiment"], c["kind"], c["measure"], c["positions"]) == ("sweep", "ratio", "nll", "all")
    ]
    (entry,) = [e for e in done.summary["audit"] if (e["claim"], e["policy_id"]) == ("C1", "matched")]
    assert len(own) == 1
    if own[0]["value"] is None:
        assert entry["value"] is None
    else:
        assert entry["value"] == pytest.approx(own[0]["value"], rel=1e-3)
    c1 = next(c for c in done.summary["claims"] if c["id"] == "C1")
    assert entry["status"] == c1["status"]


def test_policies_are_named_in_manifest_and_summary_and_settings_are_not_touched(done):
    ids = {one.id for one in DESIGN.policies}
    named = set(done.table("audit").policy_id.dropna()) | set(done.table("sweep").policy_id.dropna())
    for document in (done.summary, done.manifest):
        assert ids | named <= set(document["policies"])
    assert document["policies"]["notebook"]["plane"] == "additive"
    assert set(done.manifest["settings"]["policies"]) == {"matched", "matched-common", "matched-independent"}
    out = {e["what"]: e["why"] for e in done.summary["skipped"] if e["experiment"] == "audit"}
    assert len(out) == len(DESIGN.skipped)
    assert out["matched:plane=additive"].startswith("the same as matched: ")


def test_reference_states_are_the_models_own(done, lm):
    """Digests recomputed from plain forward passes, one text at a time in the order of their keys."""
    kept = done.manifest["references"]
    ids = {t: [0, *lm.tokenizer(t, add_special_tokens=False)["input_ids"]] for t in TEXTS}
    key = {t: hashlib.sha256(t.encode()).hexdigest()[:16] for t in TEXTS}
    bank, sinks = [], []
    for text in sorted(TEXTS, key=key.get):
        with torch.no_grad():
            states = lm.hf(input_ids=torch.tensor([ids[text]]), output_hidden_states=True).hidden_states[2][0, 1:]
        bank.append(states)
        norms = np.linalg.norm(states.double().numpy(), axis=1)
        sinks.append(norms > 10 * np.median(norms))
    bank, sinks = torch.cat(bank), np.concatenate(sinks)
    content = repr(tuple(bank.shape)).encode() + bank.numpy().tobytes() + sinks.tobytes()
    assert kept["tokens"] == len(bank)
    assert kept["states_sha256"]["1"] == hashlib.sha256(content).hexdigest()
    assert set(kept["states_sha256"]) == {"1", "2"}
    assert any("clean states, not 2,048" in warning for warning in done.summary["warnings"])


def test_the_corners_recoveries_come_from_the_rows(done):
    rows = done.table("audit")
    loss = rows[rows.task == "loss"]
    clean = loss[loss.arm == "clean"].set_index("item")
    entries = {(e["claim"], e["policy_id"]): e for e in done.summary["audit"]}
    for corner in ("matched", "notebook"):
        for claim, name, sign in (("C3", "attention", 1), ("C4", "norm", -1)):
            back = {}
            for arm in ("magnitude", "angular"):
                part = loss[(loss.policy_id == corner) & (loss.arm == arm)]
                d = [
                    (one.groupby("item").nll.mean() - clean.nll).sum()
                    for one in (part[part.repair == name], part[part.repair.isna()])
                ]
                back[arm] = 1 - d[0] / d[1]
            entry = entries[claim, corner]
            if entry["value"] is None:
                assert "not clearly above 0" in entry["why"] or "one seed" in entry["why"]
            else:
                assert entry["value"] == pytest.approx(sign * (back["angular"] - back["magnitude"]), rel=1e-6)


def test_tasks_and_seeds_extend_it_and_narrower_commands_change_nothing(lm, files, done, tmp_path):
    only = {"experiments": ["audit"], "limit": 1}
    run(lm, out=tmp_path, text=files["text"], **(ALONE | only))
    seeds = run(lm, out=tmp_path, **files, **(ALONE | only | {"seeds": 4}))
    assert set(seeds.table("audit").task) == {"loss", "pairs"}
    assert len([e for e in seeds.summary["audit"] if e["claim"] == "C2"]) == len(DESIGN.policies)
    assert set(seeds.table("audit").seed.dropna()) == {0, 1, 2}  # three at most
    before = parts(tmp_path)
    for narrower in ({"pairs": files["pairs"]}, {"text": files["text"]}):
        again = run(lm, out=tmp_path, **narrower, **(ALONE | only))
        assert again.summary["audit"] == seeds.summary["audit"]
        assert again.summary["skipped"] == seeds.summary["skipped"]
        assert again.manifest["references"] == seeds.manifest["references"]
    assert parts(tmp_path) == before
    with pytest.raises(UsageError, match="drew from states of other items"):
        run(lm, out=tmp_path, **files, **ALONE)
    assert parts(tmp_path) == before


def test_rows_do_not_depend_on_the_batch_budget(lm, files, done, tmp_path):
    other = run(lm, out=tmp_path, batch_tokens=97, text=files["text"], **ALONE)
    rows = done.table("audit")
    assert_same(other.table("audit"), rows[rows.task == "loss"], REPAIRED, tolerance=1e-4)
    assert other.manifest["references"] == done.manifest["references"]


@pytest.mark.parametrize(
    "options", [{"delta_mode": "absolute", "delta": [3.0]}, {"preset": "notebook", "delta": [3.0]}]
)
def test_absolute_deltas_count_what_falls_short_and_fail_nothing(lm, files, tmp_path, options):
    found = run(lm, out=tmp_path, limit=1, text_filter="none", **files, **(ALONE | options))
    assert found.failed == ()
    assert found.summary["delta_mode"] == "absolute"
    assert {e["claim"] for e in found.summary["audit"]} == {"C1", "C2", "C3", "C4", "verdict"}


def test_one_block_at_a_time_is_skipped(lm, files, tmp_path):
    found = run(
        lm,
        out=tmp_path,
        limit=1,
        **files,
        **(ALONE | {"layers": "each"}),
    )
    assert found.table("audit").empty
    assert {"experiment": "audit", "what": "audit"}.items() <= found.summary["skipped"][0].items()
