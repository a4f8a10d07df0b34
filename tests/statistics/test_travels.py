"""What the summary says about propagation, on planted rows: curves, amplifications, C5."""

import json

import numpy as np
import pandas as pd
import pytest

from polarlens.perturbation.policy import MATCHED, NOTEBOOK
from polarlens.statistics.summary import summarise
from polarlens.statistics.travels import CURVES, travel_entries

POLICIES = {"p": MATCHED.as_dict(), "n": NOTEBOOK.as_dict()}
GROWTH = {"magnitude": 1.1, "angular": 1.3}  # per block


def planted(n=20, seeds=3, layers=(2, 4), last=6, noise=0.05, common=0.0, growth=GROWTH, policy="p", seed=0):
    """Distances that grow by a factor per block; `common`: a seed's effect on the growth of all items."""
    rng = np.random.default_rng(seed)
    own = np.exp(0.3 * rng.standard_normal(n))
    rows = []
    for layer in layers:
        for arm in growth:
            for draw in range(seeds):
                shift = common * rng.standard_normal()
                for k in range(n):
                    wobble = shift + noise * rng.standard_normal()
                    for block in range(layer, last + 1):
                        far = block - layer
                        size = own[k] * growth[arm] ** far * np.exp(wobble * far / max(1, last - layer))
                        named = {"task": "loss", "dataset": None, "item": f"i{k}", "cluster": None, "arm": arm}
                        about = {"delta": 0.1, "positions": "all", "policy_id": policy, "seed": draw, "block": block}
                        counts = {"eligible": 10, "infeasible": k % 2, "moved": 10 - k % 2, "realised_delta_mean": 0.1}
                        measures = dict.fromkeys(CURVES) | {"distance": size, "relative": size / 50, "cosine": 0.9}
                        if block > layer:
                            measures["attention_js"] = 0.01 * far
                        rows.append({**named, **about, **counts, **measures, "layers": str(layer)})
    table = pd.DataFrame(rows).astype(dict.fromkeys(CURVES, "float64"))
    return table.astype(dict.fromkeys(("eligible", "infeasible", "moved", "block"), "Int32") | {"seed": "Int64"})


def entries(rows):
    found = travel_entries(rows, POLICIES)
    json.dumps([found.cells, found.contrasts], allow_nan=False)
    return found


def pick(found, **wanted):
    return [c for c in found if all(c.get(key) == value for key, value in wanted.items())]


def means(rows, arm, layer, block):
    part = rows[(rows.arm == arm) & (rows.layers == str(layer)) & (rows.block == block)]
    return part.groupby("item").distance.mean().mean()


def test_amplifications_and_their_ratio_by_hand():
    rows = planted()
    found = entries(rows)
    for layer in (2, 4):
        size = {arm: means(rows, arm, layer, 6) / means(rows, arm, layer, layer) for arm in GROWTH}
        for arm in GROWTH:
            (one,) = pick(found.cells, measure="amplification", arm=arm, layers=str(layer))
            assert one["mean"] == pytest.approx(size[arm], rel=1e-9)
            assert one["ci95"][0] < GROWTH[arm] ** (6 - layer) < one["ci95"][1]
        (one,) = pick(found.contrasts, layers=str(layer))
        assert one["value"] == pytest.approx(size["angular"] / size["magnitude"], rel=1e-9)
        assert (one["kind"], one["measure"], one["defined"]) == ("ratio", "amplification", True)
    (given,) = found.given["C5"]
    assert (given.layers, given.delta) == ("2", 0.1)
    assert np.exp(given.estimate.value) == pytest.approx(pick(found.contrasts, layers="2")[0]["value"])


def test_c5_in_the_summary():
    for growth, status in ((GROWTH, "replicates"), (dict(zip(GROWTH, (1.3, 1.1), strict=True)), "contradicts")):
        found = summarise(
            pd.DataFrame(),
            others={"propagation": planted(growth=growth)},
            model="m",
            preset="matched",
            policies=POLICIES,
        )
        (c5,) = [claim for claim in found["claims"] if claim["id"] == "C5"]
        assert c5["status"] == status
        assert c5["measured"] == pytest.approx((growth["angular"] / growth["magnitude"]) ** 4, rel=0.1)


def test_curves_by_hand_and_only_what_there_is():
    rows = planted()
    found = entries(rows)
    for block in range(2, 7):
        (one,) = pick(found.cells, measure="distance", arm="angular", layers="2", block=block)
        assert one["mean"] == pytest.approx(means(rows, "angular", 2, block), rel=1e-9)
    assert len(pick(found.cells, measure="attention_js", arm="angular", layers="2")) == 4
    assert {c["measure"] for c in pick(found.cells, layers="2")} == {
        *("distance", "relative", "cosine", "attention_js", "amplification")
    }
    assert {c["measure"] for c in pick(found.cells, layers="4")} == {"distance", "amplification"}
    assert {c["infeasible_share"] for c in found.cells} == {0.05}
    assert {c["n_seeds"] for c in found.cells} == {3}
    assert all(c["realised_delta_mean"] == pytest.approx(0.1) for c in found.cells)
    still = pick(found.cells, measure="cosine", block=3, arm="angular")[0]
    assert (still["mean"], still["ci95"]) == (pytest.approx(0.9), None)
    assert "zero variance" in still["why"]


def test_items_that_share_draws_have_the_seed_as_a_second_factor():
    fresh = pick(entries(planted(common=0.2, seeds=6)).contrasts, layers="2")[0]
    rows = planted(common=0.2, seeds=6, policy="n")
    shared = pick(entries(rows).contrasts, layers="2")[0]
    assert shared["value"] == pytest.approx(fresh["value"])
    width = [np.diff(np.log(one["ci95"]))[0] for one in (fresh, shared)]
    assert width[1] > 3 * width[0]
    (arm,) = pick(entries(rows[rows.seed == 0]).cells, measure="amplification", arm="angular", layers="2")
    assert arm["ci95"] is None
    assert "one seed" in arm["why"]


def test_shared_draws_cover_where_nested_ones_would_not():
    """60 studies with a seed effect common to all items."""
    truth = GROWTH["angular"] / GROWTH["magnitude"]
    inside = {"p": 0, "n": 0}
    for study in range(60):
        rows = planted(n=8, seeds=5, layers=(2,), last=3, common=0.2, seed=study)
        for policy in inside:
            low, high = entries(rows.assign(policy_id=policy)).contrasts[0]["ci95"]
            inside[policy] += low < truth < high
    assert inside["n"] >= 52
    assert inside["p"] <= 45


def test_an_injection_with_nothing_above_has_no_amplification():
    found = entries(planted(layers=(6,)))
    assert found.contrasts == []
    assert found.given == {}
    assert pick(found.cells, measure="amplification") == []


def test_layers_are_in_numerical_order_and_one_arm_has_no_ratio():
    found = entries(planted(n=3, seeds=1, layers=(9, 10), last=12))
    assert list(dict.fromkeys(c["layers"] for c in found.cells)) == ["9", "10"]
    assert found.given["C5"][0].layers == "9"
    rows = planted(n=3)
    one = entries(rows[rows.arm == "angular"])
    assert one.contrasts == []
    assert pick(one.cells, measure="amplification", arm="angular")
