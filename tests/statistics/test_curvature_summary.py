"""Curvature per block: closed forms, Hutchinson's share of the variance, coverage of the limit of R."""

import json

import numpy as np
import pandas as pd
import pytest

from polarlens.statistics.curvature import block_curvatures, curvature_entries
from polarlens.statistics.ratio import ratio_interval


def rows(radial, tangential, gradient, tokens, *, block=3, **more):
    """(I, P) radial and tangential values, (I,) gradient terms and tokens."""
    radial, tangential = np.atleast_2d(radial), np.atleast_2d(tangential)
    items, probes = radial.shape
    table = {
        "item": np.repeat([f"i{k}" for k in range(items)], probes),
        "seed": np.tile(np.arange(probes), items),
        "n_tokens": np.repeat(np.asarray(tokens), probes),
        "radial": radial.reshape(-1),
        "tangential": tangential.reshape(-1),
        "gradient": np.repeat(np.asarray(gradient), probes),
    }
    about = {"dataset": "t", "cluster": None, "block": block, "positions": "all", "policy_id": "matched", **more}
    return pd.DataFrame(table).assign(**about)


def entries(table, measure="nll"):
    cells, contrasts = curvature_entries(block_curvatures(table, measure))
    json.dumps([cells, contrasts], allow_nan=False)
    return {(c["measure"], c["arm"]): c for c in cells}, {c["kind"]: c for c in contrasts}


def test_by_hand():
    table = rows([[2.0, 4.0], [8.0, 12.0]], [[6.0, 6.0], [20.0, 30.0]], [1.0, -5.0], [10, 20])
    cells, contrasts = entries(table)
    # per item: radial 3, 10; tangential 6, 25; gradient 1, -5; 30 tokens; halved
    assert cells["curvature", "magnitude"]["mean"] == pytest.approx((3 + 10) / 2 / 30)
    assert cells["curvature", "angular"]["mean"] == pytest.approx((5 + 30) / 2 / 30)
    assert cells["curvature_tangential", "angular"]["mean"] == pytest.approx(31 / 2 / 30)
    assert cells["curvature_gradient", "angular"]["mean"] == pytest.approx(4 / 2 / 30)
    assert contrasts["difference"]["value"] == pytest.approx(22 / 2 / 30)
    assert (contrasts["ratio"]["block"], contrasts["ratio"]["layers"]) == (3, "3")
    per_item, _ = entries(table, "nll_item")
    assert per_item["curvature", "magnitude"]["mean"] == pytest.approx((3 / 10 + 10 / 20) / 2 / 2)
    assert cells["curvature", "magnitude"]["n_seeds"] == 2


def test_limit_of_r_is_undefined_unless_the_radial_interval_is_above_zero():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((40, 1))
    _, contrasts = entries(rows(0.1 + noise, 2.0 + noise, np.zeros(40), np.ones(40)))
    assert (contrasts["ratio"]["value"], contrasts["ratio"]["ci95"]) == (None, None)
    assert "not above 0" in contrasts["ratio"]["why"]
    assert not contrasts["ratio"]["defined"]
    _, contrasts = entries(rows(-3.0 + noise, 2.0 + noise, np.zeros(40), np.ones(40)))
    assert contrasts["ratio"]["value"] is None  # negative curvature: the smaller the surer
    table = rows(3.0 + noise, 6.0 + 2 * noise[::-1], np.zeros(40), np.ones(40))
    _, contrasts = entries(table)
    found = contrasts["ratio"]
    means = table.groupby("item")[["tangential", "radial"]].mean()
    assert found["value"] == pytest.approx(means["tangential"].mean() / means["radial"].mean())
    assert found["ci95"][0] < found["value"] < found["ci95"][1]


def test_one_item_no_spread_not_finite_one_probe():
    cells, contrasts = entries(rows([[2.0]], [[6.0]], [1.0], [10]))
    assert cells["curvature", "magnitude"]["ci95"] is None
    assert "one item" in cells["curvature", "magnitude"]["why"]
    assert cells["curvature", "magnitude"]["probe_variance_share"] is None
    assert not contrasts["ratio"]["defined"]
    same = rows(np.full((5, 2), 2.0), np.full((5, 2), 6.0), np.ones(5), np.full(5, 10))
    cells, _ = entries(same)
    assert cells["curvature", "angular"]["ci95"] is None
    assert "zero variance" in cells["curvature", "angular"]["why"]
    broken = rows([[2.0], [np.nan], [3.0], [4.0]], [[6.0], [7.0], [np.inf], [8.0]], np.ones(4), np.full(4, 10))
    cells, _ = entries(broken)
    assert cells["curvature", "magnitude"]["n_items"] == 2
    assert block_curvatures(same.iloc[:0]) == []


def test_blocks_and_positions_are_families_of_their_own():
    rng = np.random.default_rng(1)
    tables = [
        rows(5 + rng.standard_normal((30, 1)), 5.6 + rng.standard_normal((30, 1)), np.zeros(30), np.ones(30), block=b)
        for b in (10, 2, 7)
    ]
    table = pd.concat([*tables, tables[0].assign(positions="no-first")])
    _, contrasts = curvature_entries(block_curvatures(table))
    assert [c["block"] for c in contrasts if c["kind"] == "ratio"] == [2, 7, 10, 10]
    alone = next(c for c in contrasts if c["positions"] == "no-first" and c["kind"] == "difference")
    among = next(c for c in contrasts if c["positions"] == "all" and c["block"] == 10 and c["kind"] == "difference")
    assert alone["value"] == among["value"]
    assert among["p_holm"] >= alone["p_holm"]
    assert alone["ci_simultaneous"] == alone["ci95"]
    assert among["ci_simultaneous"][0] < among["ci95"][0]


def test_clusters_and_share_of_the_probes():
    """A planted item SD of 1 and probe SD of 3 with 4 probes: 9/4 of 1 + 9/4."""
    rng = np.random.default_rng(2)
    item = rng.standard_normal((4000, 1))
    radial = 10 + item + 3 * rng.standard_normal((4000, 4))
    cells, _ = entries(rows(radial, 2 * radial, np.zeros(4000), np.full(4000, 7)))
    for arm in ("magnitude", "angular"):
        assert cells["curvature", arm]["probe_variance_share"] == pytest.approx(2.25 / 3.25, abs=0.03)
    width = {}
    for name, cluster in (("items", None), ("lines", np.repeat([f"c{k // 10}" for k in range(4000)], 4))):
        table = rows(10 + np.repeat(item[:400], 10, axis=0), np.ones((4000, 1)), np.zeros(4000), np.full(4000, 7))
        table["cluster"] = cluster[::4] if cluster is not None else None
        found = entries(table)[0]["curvature", "magnitude"]["ci95"]
        width[name] = found[1] - found[0]
    assert width["lines"] == pytest.approx(width["items"] * np.sqrt(10), rel=0.02)


def test_coverage_of_the_limit():
    """Skewed items of unequal length, noisy probes: Fieller's interval holds the true limit."""
    rng, hits, studies = np.random.default_rng(3), 0, 500
    for _ in range(studies):
        tokens = rng.integers(5, 65, 60)
        size = tokens * rng.gamma(2.0, 0.5, 60)
        radial = size[:, None] * (1.0 + 0.5 * rng.standard_normal((60, 3)))
        tangential = size[:, None] * (3.0 + 0.5 * rng.standard_normal((60, 3)))
        gradient = size * (1.0 + rng.standard_normal(60))
        (block,) = block_curvatures(rows(radial, tangential, gradient, tokens))
        interval, _ = ratio_interval(block.limit)
        hits += interval is not None and interval[0] <= 2.0 <= interval[1]
    assert 0.925 <= hits / studies <= 0.98


def test_where_items_share_draws_the_seed_is_a_second_factor():
    """A probe effect common to all items: nested intervals would miss it, and one probe gives none."""
    rng = np.random.default_rng(3)
    radial = 5.0 + rng.standard_normal((30, 1)) + 2.0 * rng.standard_normal((1, 6))
    table = rows(radial, radial + 3.0, np.zeros(30), np.full(30, 2))
    by_length = {"matched": {"across_items": {"magnitude": "fresh", "angular": "by-length"}}}
    (nested,), (crossed,) = block_curvatures(table), block_curvatures(table, policies=by_length)
    assert crossed.moments.values == pytest.approx(nested.moments.values)
    a, b = (one.moments.linear(0.0, 1.0, 0.0, 0.0) for one in (nested, crossed))
    assert b.se**2 == pytest.approx(radial.mean(0).var(ddof=1) / 6 / 4**2 + a.se**2, rel=0.1)
    assert b.se > 2.5 * a.se
    (one,) = block_curvatures(table[table["seed"] == 0], policies=by_length)
    assert one.moments.linear(0.0, 1.0, 0.0, 0.0).interval() is None
    assert one.policy_id == "matched"
