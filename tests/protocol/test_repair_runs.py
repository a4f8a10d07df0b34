"""Repair as an experiment of a run: its rows, how a folder grows, what is refused, and the summary from the rows."""

from types import SimpleNamespace

import pytest
from made_runs import KEYS, RAN_ON, TEXTS, assert_same, parts, run, write_data

import polarlens as pl
from polarlens.cli.main import main
from polarlens.engine.repair import REPAIRS
from polarlens.errors import NumericalError, SiteError, UsageError
from polarlens.protocol.checks import Distances
from polarlens.protocol.config import RunConfig, resolved
from polarlens.protocol.experiments import all_wanted, missing_units
from polarlens.protocol.prepared import prepare
from polarlens.protocol.tasks import read_data
from tiny import save_tiny

REPAIRED = [*KEYS, "repair", "repair_layers"]
BOTH = RAN_ON | {"experiments": ["sweep", "repair"]}
ALONE = RAN_ON | {"experiments": ["repair"]}
NUMBERS = ["nll", "kl", "logp_good", "logp_bad"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return pl.load(str(save_tiny(tmp_path_factory.mktemp("model"), "llama", num_hidden_layers=4)))


@pytest.fixture(scope="module")
def done(lm, files, tmp_path_factory):
    return run(lm, out=tmp_path_factory.mktemp("run"), **files, **BOTH)


def test_rows_without_a_repair_are_the_sweeps(done):
    sweep, repair = done.table("sweep"), done.table("repair")
    same = repair[repair.repair.isna()].drop(columns=["repair", "repair_layers"])
    chosen = sweep[((sweep.delta > 0) & (sweep.positions == "all")) | (sweep.arm == "clean")]
    assert_same(same.assign(experiment="sweep"), chosen, KEYS)


def test_every_repair_is_there_once_with_every_draw(done):
    rows = done.table("repair")
    assert not rows.duplicated(REPAIRED).any()
    counts = rows[rows.arm != "clean"].groupby(["task", rows.repair.fillna("")]).size()
    for name in ("", *REPAIRS):
        assert counts["loss", name] == 4 * 2 * 2 * 2  # items, arms, seeds, antithetic members
        assert counts["pairs", name] == 2 * 2 * 2 * 2 * 2  # and two policies
    assert set(rows.repair_layers[rows.repair.notna() & (rows.repair != "final-norm-scale")]) == {"2"}
    assert rows.repair_layers[rows.repair == "final-norm-scale"].isna().all()
    assert done.summary["complete"]
    assert [e for e in done.summary["skipped"] if e["experiment"] == "repair"] == []


@pytest.mark.parametrize(
    ("one", "other"), [("norm", "attention+mlp"), ("attention-pattern+attention-values", "attention")]
)
def test_repairs_that_hold_the_same_are_equal(done, one, other):
    rows = done.table("repair")
    a, b = (rows[rows.repair == name].drop(columns="repair") for name in (one, other))
    numbers = [name for name in a if name not in ("realised_delta_mean", "realised_delta_max_error", "norm_change_max")]
    assert_same(a[numbers], b[numbers], KEYS, tolerance=2e-5)
    bare = rows[rows.repair.isna() & (rows.arm != "clean") & (rows.task == "loss")].sort_values(KEYS)
    held = a[a.task == "loss"].sort_values(KEYS)
    assert abs(bare.nll.to_numpy() - held.nll.to_numpy()).max() > 1e-2


def test_recoveries_in_the_summary_come_from_the_rows(done):
    rows = done.table("repair")
    loss = rows[rows.task == "loss"]
    clean = loss[loss.arm == "clean"].set_index("item")

    def damage(arm, name):
        part = loss[(loss.arm == arm) & (loss.repair.isna() if name is None else loss.repair == name)]
        return (part.groupby("item").nll.mean() - clean.nll).sum() / clean.n_tokens.sum()

    seen = 0
    for cell in done.summary["cells"]:
        if cell["experiment"] == "repair" and cell["task"] == "loss" and cell["measure"] in ("nll", "recovery"):
            d = damage(cell["arm"], cell["repair"])
            if cell["measure"] == "recovery" and cell["mean"] is None:
                assert "not clearly above 0" in cell["why"]
                continue
            want = d if cell["measure"] == "nll" else 1 - d / damage(cell["arm"], None)
            assert cell["mean"] == pytest.approx(want, rel=1e-6)
            assert (cell["policy_id"], cell["positions"], cell["layers"]) == ("matched", "all", "1-2")
            seen += 1
    assert seen >= 2 * (1 + len(REPAIRS))
    d = {name: damage("angular", name) for name in (None, "attention", "mlp", "attention+mlp")}
    (phi,) = [
        c["mean"]
        for c in done.summary["cells"]
        if (c["measure"], c.get("repair"), c["arm"], c["task"]) == ("shapley", "attention", "angular", "loss")
    ]
    # half of what attention brings alone, and half of what it adds to the MLP
    assert phi == pytest.approx((d[None] - d["attention"] + d["mlp"] - d["attention+mlp"]) / 2, rel=1e-6)
    assert {c["of"] for c in done.summary["cells"] if c["measure"] == "recovery" and c["task"] == "pairs"} == {
        "accuracy",
        "margin",
    }


def test_a_folder_grows_by_repairs_seeds_and_experiments_to_the_same_rows(lm, files, done, tmp_path):
    small = RAN_ON | {"seeds": 1}
    run(lm, out=tmp_path, **files, **small, experiments=["sweep"])
    run(lm, out=tmp_path, **files, **small, experiments=["repair"], repair=["mlp"])
    before = parts(tmp_path)
    grown = run(lm, out=tmp_path, **files, **BOTH)
    assert before.items() <= parts(tmp_path).items()
    for name, keys in (("sweep", KEYS), ("repair", REPAIRED)):
        assert_same(grown.table(name), done.table(name), keys)
    for a, b in zip(grown.summary["cells"], done.summary["cells"], strict=True):
        assert (a["measure"], a.get("repair"), a["n_seeds"]) == (b["measure"], b.get("repair"), b["n_seeds"])
        if b["mean"] is not None and b["measure"] not in ("recovery", "shapley_share"):
            assert a["mean"] == pytest.approx(b["mean"], rel=1e-3, abs=1e-5)
    before = parts(tmp_path)
    for narrower in ({"repair": ["norm"]}, {"seeds": 1, "limit": 1, "repair": ["attention", "mlp"]}):
        again = run(lm, out=tmp_path, **files, **(ALONE | narrower))
        assert again.summary == grown.summary
        assert again.manifest["wanted"] == grown.manifest["wanted"]
    assert parts(tmp_path) == before


@pytest.mark.parametrize("batch_tokens", [1, 97])
def test_rows_do_not_depend_on_the_batch_budget(lm, files, done, tmp_path, batch_tokens):
    other = run(lm, out=tmp_path, batch_tokens=batch_tokens, **files, **ALONE, repair=["attention-pattern", "norm"])
    rows = done.table("repair")
    assert_same(
        other.table("repair"), rows[rows.repair.isna() | rows.repair.isin(["attention-pattern", "norm"])], REPAIRED
    )


def test_alone_it_has_the_baseline_and_the_claims(lm, files, done, tmp_path):
    found = run(lm, out=tmp_path, text=files["text"], **ALONE, repair=["attention"])
    baseline = found.summary["baseline"]["loss"]
    assert baseline["nll"]["mean"] == pytest.approx(done.summary["baseline"]["loss"]["nll"]["mean"])
    assert baseline["n_items"] == 4
    assert found.summary["baseline"]["pairs"] is None
    assert found.summary["delta_mode"] == "relative"
    claims = {claim["id"]: claim for claim in found.summary["claims"]}
    assert claims["C3"]["status"] != "not_run"
    assert claims["C1"]["status"] == "not_run"
    assert found.summary["complete"]


def test_each_layer_and_each_repaired_layer(lm, files, tmp_path):
    options = ALONE | {"layers": "each", "repair_layers": "each", "seeds": 1, "positions": ["all"]}
    found = run(lm, out=tmp_path, limit=2, **files, **options, repair=["attention", "final-norm-scale"])
    rows = found.table("repair")
    clean, loss = rows[rows.arm == "clean"], rows[(rows.task == "loss") & rows.repair.notna()]
    assert not clean.duplicated(["task", "item"]).any()
    assert len(clean) == 4
    assert not rows.duplicated(REPAIRED).any()
    held = {(r.layers, r.repair_layers) for r in loss[loss.repair == "attention"].itertuples()}
    assert held == {(str(a), str(b)) for a in range(4) for b in range(a + 1, 4)}
    assert set(loss[loss.repair == "final-norm-scale"].layers) == set("0123")
    (entry,) = [e for e in found.summary["skipped"] if e["experiment"] == "repair"]
    assert entry["what"] == "attention"
    assert "nothing can differ" in entry["why"]
    assert "with layers 3 perturbed" in entry["why"]
    assert found.summary["complete"]


def test_when_the_last_block_is_perturbed_only_the_final_norm_can_be_held(lm, files, tmp_path):
    found = run(lm, out=tmp_path, text=files["text"], **(ALONE | {"layers": "3", "seeds": 1}), limit=1)
    rows = found.table("repair")
    assert set(rows.repair.dropna()) == {"final-norm-scale"}
    assert {e["what"] for e in found.summary["skipped"] if e["experiment"] == "repair"} == set(REPAIRS) - {
        "final-norm-scale"
    }
    (c3,) = [claim for claim in found.summary["claims"] if claim["id"] == "C3"]
    assert c3["status"] == "not_run"
    assert "nothing can differ" in c3["why"]


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"repair": ["atention"]}, UsageError, "nearest known one is attention"),
        ({"repair_layers": "0"}, UsageError, "nothing can differ"),
        ({"layers": "3", "repair": ["mlp"]}, UsageError, "nothing can differ"),
        ({"layers": "3", "repair_layers": "each"}, UsageError, "nothing can differ"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(lm, files, tmp_path, options, error, named):
    with pytest.raises(error, match=named):
        run(lm, out=tmp_path / "x", **files, **(ALONE | options))
    assert not (tmp_path / "x").exists()


def test_a_site_the_family_lacks_is_skipped_or_refused_if_named(files, tmp_path, capsys):
    model = str(save_tiny(tmp_path / "bloom", "bloom"))
    bloom = pl.load(model)
    found = run(bloom, out=tmp_path / "a", text=files["text"], limit=1, **(ALONE | {"layers": "0-1", "seeds": 1}))
    missing = {e["what"]: e["why"] for e in found.summary["skipped"] if e["experiment"] == "repair"}
    assert set(missing) == {"attention-pattern", "attention-values", "attention-pattern+attention-values"}
    assert "attention" in set(found.table("repair").repair.dropna())
    with pytest.raises(SiteError):
        run(bloom, out=tmp_path / "b", text=files["text"], **ALONE, repair=["attention-pattern"])
    command = [
        "run",
        model,
        "--text",
        files["text"],
        "--experiments",
        "repair",
        "--quiet",
        "--out",
        str(tmp_path / "c"),
    ]
    assert main([*command, "--repair", "attention-pattern"]) == 3
    assert main([*command, "--out", str(tmp_path / "c"), "--repair", "atention"]) == 2
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("mode", ["absolute", "site", "paper", "notebook"])
def test_other_delta_modes_and_presets(lm, files, tmp_path, mode):
    options = {"preset": mode} if mode in ("paper", "notebook") else {"delta_mode": mode}
    more = {"delta": [0.5], "seeds": 1, "text_filter": "none", "repair": ["attention", "norm"]}
    found = run(lm, out=tmp_path, limit=2, **files, **(BOTH | more | options))
    assert found.failed == ()
    assert found.summary["complete"]
    sweep, rows = found.table("sweep"), found.table("repair")
    bare = rows[rows.repair.isna()].drop(columns=["repair", "repair_layers"])
    chosen = sweep[((sweep.delta > 0) & (sweep.positions == "all")) | (sweep.arm == "clean")]
    assert_same(bare.assign(experiment="sweep"), chosen, KEYS)
    assert rows[rows.arm != "clean"].sign.isna().all() == (mode in ("paper", "notebook"))
    assert set(rows.policy_id.dropna()) <= set(found.summary["policies"])


def test_low_precision_with_mismatch_allowed(tmp_path, files):
    rough = pl.load(str(save_tiny(tmp_path / "m", "llama")), dtype="bfloat16")
    small = ALONE | {"delta": [0.01], "layers": "0-1", "seeds": 1, "limit": 1, "repair": ["norm-scale", "attention"]}
    refused = run(rough, out=tmp_path / "a", text=files["text"], **small)
    assert "moved tokens by" in refused.failed[0]
    allowed = run(rough, out=tmp_path / "b", text=files["text"], allow_mismatch=True, **small)
    assert allowed.failed == ()


def test_a_default_run_of_thirty_blocks_writes_fewer_than_500_files(tmp_path):
    deep = pl.load(str(save_tiny(tmp_path / "m", "llama", num_hidden_layers=30)))
    (tmp_path / "t.txt").write_text("\n".join(f"{TEXTS[k % 4]} {k}" for k in range(281)))
    (tmp_path / "p.csv").write_text("good,bad\n" + "\n".join(f"A cat {k}.,A cats {k}." for k in range(200)))
    data = {"text": str(tmp_path / "t.txt"), "pairs": [str(tmp_path / "p.csv")]}

    def units(**options):
        config = resolved(RunConfig(models=("m",), out=tmp_path / "x", **data, **options))
        return missing_units(all_wanted(prepare(config, deep, read_data(config))), {})

    assert len(units(layers="8-15")) < 500
    assert len(units(layers="each", experiments=["repair"], seeds=1)) < 500
    every = units(layers="8-15", experiments=["sweep", "repair", "propagation", "audit", "curvature"], seeds=1)
    assert len(every) < 500


def test_distances_are_judged_policy_by_policy():
    """What one policy falls short another must not make up for; where tokens go as far as they can it is counted."""
    policies = {"a": pl.perturbation.MATCHED, "b": pl.perturbation.MATCHED, "n": pl.perturbation.NOTEBOOK}
    protocol = SimpleNamespace(layers=(1,), policies=policies)

    def told(**ratios):
        distances = Distances()
        for name, ratio in ratios.items():
            for arm in ("magnitude", "angular"):
                condition = SimpleNamespace(policy_id=name, arm=arm, delta=0.1)
                distances.add(condition, SimpleNamespace(by_layer={1: (ratio, 1.0)}))
        return distances

    told(a=1.0, b=1.0, n=0.5).check(protocol, allow_mismatch=False)
    with pytest.raises(NumericalError, match="policy a"):
        told(a=1.02, b=0.98).check(protocol, allow_mismatch=False)
