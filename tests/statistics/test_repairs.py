"""What the summary says about repairs, on planted rows: recoveries, splits, the arms' differences, C3 and C4."""

import json

import numpy as np
import pandas as pd
import pytest
from synthetic_rows import POLICIES, moved, pair, text

from polarlens.rows.schema import REPAIR
from polarlens.statistics.repairs import blocks_of, repair_entries
from polarlens.statistics.summary import summarise

D = {"magnitude": 0.2, "angular": 0.6}
RECOVERED = {
    "attention": {"magnitude": 0.15, "angular": 0.28},
    "mlp": {"magnitude": 0.4, "angular": 0.3},
    "attention+mlp": {"magnitude": 0.5, "angular": 0.7},
    "norm": {"magnitude": 0.5, "angular": 0.7},
}


def planted(n=30, seeds=2, noise=0.02, seed=0, damage=D, sites=None, policy="matched", delta=0.1, mode="relative"):
    """Texts of unequal length and harm; a repair takes its share of each item's own damage, up to noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(n):
        tokens = int(rng.integers(8, 64))
        clean, size = text(f"t{k}", 4.0 * tokens, tokens), rng.gamma(4.0, 0.25)
        rows.append(clean)
        for arm in D:
            for draw in range(seeds):
                for (name, layers), share in {(None, None): {arm: 0.0}, **(sites or default_sites())}.items():
                    kept = damage[arm] * size * (1 - share[arm]) + noise * rng.standard_normal()
                    named = {"repair": name, "repair_layers": layers, "seed": draw, "policy_id": policy}
                    rows.append(
                        moved(clean, arm, delta, nll=clean["nll"] + tokens * kept, kl=0.1, delta_mode=mode, **named)
                    )
    return as_read(rows)


def default_sites():
    return {(name, "9-15"): shares for name, shares in RECOVERED.items()}


def as_read(rows):
    table = pd.DataFrame(rows).assign(model="m", experiment="repair")
    for name in REPAIR.names:
        if name not in table:
            table[name] = None
    return table


def entries(rows, policies=POLICIES["matched"], measure="nll"):
    found = repair_entries(rows, policies, measure)
    json.dumps([found.cells, found.contrasts], allow_nan=False)
    return found


def cell(found, measure, repair, arm, **more):
    wanted = {"measure": measure, "repair": repair, "arm": arm, **more}
    (one,) = [c for c in found.cells if all(c.get(key) == value for key, value in wanted.items())]
    return one


def contrast(found, measure, repair, **more):
    wanted = {"measure": measure, "repair": repair, **more}
    (one,) = [c for c in found.contrasts if all(c.get(key) == value for key, value in wanted.items())]
    return one


def pooled(rows, arm, name=None, per_item=False):
    """Damage per token (or mean of per-item means) by hand."""
    clean = rows[rows.arm == "clean"].set_index("item")
    part = rows[(rows.arm == arm) & (rows.repair.isna() if name is None else rows.repair == name)]
    damage = part.groupby("item").nll.mean() - clean.nll
    return (damage / clean.n_tokens).mean() if per_item else damage.sum() / clean.n_tokens.sum()


@pytest.mark.parametrize("measure", ["nll", "nll_item"])
def test_recoveries_and_splits_by_hand(measure):
    rows = planted()
    found = entries(rows, measure=measure)
    d = {(arm, name): pooled(rows, arm, name, measure == "nll_item") for arm in D for name in (None, *RECOVERED)}
    for arm in D:
        for name in RECOVERED:
            one = cell(found, "recovery", name, arm)
            assert one["mean"] == pytest.approx(1 - d[arm, name] / d[arm, None], rel=1e-9)
            assert one["ci95"][0] < RECOVERED[name][arm] < one["ci95"][1]
            assert (one["of"], one["repair_layers"], one["layers"]) == (measure, "9-15", "8-15")
        back = {name: d[arm, None] - d[arm, name] for name in ("attention", "mlp", "attention+mlp")}
        a, m, am = back.values()
        phi = {"attention": (a + am - m) / 2, "mlp": (m + am - a) / 2}
        for name, value in phi.items():
            assert cell(found, "shapley", name, arm)["mean"] == pytest.approx(value, rel=1e-9)
            assert cell(found, "shapley_share", name, arm)["mean"] == pytest.approx(value / am, rel=1e-9)
        assert cell(found, "shapley", "interaction", arm)["mean"] == pytest.approx(am - a - m, rel=1e-9)
        assert cell(found, "shapley", "attention+mlp", arm)["mean"] == pytest.approx(am, rel=1e-9)
        assert cell(found, "shapley", "out of reach", arm)["mean"] == pytest.approx(d[arm, None] - am, rel=1e-9)
        assert cell(found, measure, "attention", arm)["mean"] == pytest.approx(d[arm, "attention"], rel=1e-9)
        assert cell(found, measure, None, arm)["mean"] == pytest.approx(d[arm, None], rel=1e-9)
    for name in RECOVERED:
        ang, mag = (cell(found, "recovery", name, arm)["mean"] for arm in ("angular", "magnitude"))
        assert contrast(found, "recovery", name)["value"] == pytest.approx(ang - mag, rel=1e-9)
    for name in ("attention", "mlp"):
        ang, mag = (cell(found, "shapley", name, arm)["mean"] for arm in ("angular", "magnitude"))
        assert contrast(found, "shapley", name)["value"] == pytest.approx(ang - mag, rel=1e-9)


def test_claims_have_the_published_orientation():
    shares = {
        ("attention", "9-15"): {"magnitude": 0.15, "angular": 0.28},
        ("norm", "9-15"): {"magnitude": 0.3, "angular": 0.14},
    }
    options = {"model": "m", "preset": "matched", "policies": POLICIES["matched"], "unigram_nll": 99.0}
    found = summarise(pd.DataFrame(), others={"repair": planted(sites=shares)}, **options)
    claims = {claim["id"]: claim for claim in found["claims"]}
    for id_, size in (("C3", 0.13), ("C4", 0.16)):
        assert claims[id_]["status"] == "replicates"
        assert claims[id_]["measured"] == pytest.approx(size, abs=0.04)
        assert claims[id_]["ci95"][0] < size < claims[id_]["ci95"][1]
        assert claims[id_]["delta"] == 0.1
    assert found["baseline"]["loss"]["n_items"] == 30
    assert found["delta_mode"] == "relative"
    swapped = {name: {"magnitude": s["angular"], "angular": s["magnitude"]} for name, s in shares.items()}
    found = summarise(pd.DataFrame(), others={"repair": planted(sites=swapped)}, **options)
    assert [c["status"] for c in found["claims"] if c["id"] in ("C3", "C4")] == ["contradicts"] * 2


def test_the_delta_mode_is_known_without_a_sweep():
    rows = planted(n=8, delta=5.0, mode="absolute")
    options = {"model": "m", "preset": "matched", "policies": POLICIES["matched"], "unigram_nll": 99.0}
    assert summarise(pd.DataFrame(), others={"repair": rows}, **options)["delta_mode"] == "absolute"


def test_no_recovery_of_a_damage_that_is_not_above_zero():
    found = entries(planted(damage={"magnitude": 0.0, "angular": 0.6}, noise=0.1))
    one = cell(found, "recovery", "attention", "magnitude")
    assert (one["mean"], one["ci95"]) == (None, None)
    assert "not clearly above 0" in one["why"]
    assert cell(found, "recovery", "attention", "angular")["mean"] is not None
    difference = contrast(found, "recovery", "attention")
    assert (difference["value"], difference["ci95"], difference["defined"]) == (None, None, False)
    assert "not clearly above 0" in difference["why"]
    assert found.given["C3"][0].estimate.value is None


def test_the_profile_beside_it_decides_no_claim():
    """One layer at a time recovers the other way round; C3 is about all of them."""
    sites = {("attention", "9-15"): {"magnitude": 0.1, "angular": 0.3}}
    sites |= {("attention", str(k)): {"magnitude": 0.2, "angular": 0.02} for k in (9, 10, 15)}
    found = entries(planted(sites=sites))
    (given,) = found.given["C3"]
    assert given.estimate.value == pytest.approx(0.2, abs=0.05)
    order = [c["repair_layers"] for c in found.contrasts if c["measure"] == "recovery"]
    assert order == ["9", "9-15", "10", "15"]
    only = entries(planted(sites={key: s for key, s in sites.items() if key[1] != "9-15"}))
    assert len(only.given["C3"]) == 1


def test_one_item_and_one_seed_say_why_there_is_no_interval():
    one = cell(entries(planted(n=1)), "recovery", "attention", "angular")
    assert one["ci95"] is None
    assert "one item" in one["why"]
    assert cell(entries(planted(seeds=1)), "recovery", "attention", "angular")["ci95"] is not None
    by_length = entries(planted(seeds=1, policy="notebook"), POLICIES["notebook"], "nll_item")
    shown = cell(by_length, "recovery", "attention", "angular")
    assert shown["ci95"] is None
    assert "one seed" in shown["why"]


def test_pairs_have_recoveries_of_accuracy_and_margin_and_no_claim():
    rng = np.random.default_rng(1)
    rows = []
    for k in range(60):
        clean = pair(f"p{k}", -20.0, -22.0)
        rows.append(clean)
        for arm in D:
            for name, flips in ((None, 0.5), ("attention", 0.25)):
                margin = (-1.0 if rng.random() < flips else 1.0) + 0.1 * rng.standard_normal()
                named = {"repair": name, "repair_layers": name and "9-15"}
                rows.append(moved(clean, arm, 0.1, logp_bad=-20.0 - margin, **named))
    table = as_read(rows)
    found = entries(table)
    for arm in D:
        wrong = table[(table.arm == arm) & (table.logp_bad > table.logp_good)]
        left = (wrong.repair == "attention").sum() / wrong.repair.isna().sum()
        assert cell(found, "recovery", "attention", arm, of="accuracy")["mean"] == pytest.approx(1 - left)
        assert cell(found, "recovery", "attention", arm, of="margin")["ci95"] is not None
    assert found.given == {}


def test_intervals_of_the_difference_cover_the_truth():
    """50 studies of 25 items; the truth lies inside at 95 %."""
    sites = {("attention", "9-15"): RECOVERED["attention"]}
    truth = RECOVERED["attention"]["angular"] - RECOVERED["attention"]["magnitude"]
    inside = 0
    for study in range(50):
        rows = planted(n=25, seeds=1, noise=0.05, seed=study, sites=sites)
        low, high = entries(rows).given["C3"][0].estimate.interval()
        inside += low < truth < high
    assert inside >= 44


def test_blocks_of():
    assert blocks_of("9-11,15") == [9, 10, 11, 15]
    assert blocks_of("") == []
