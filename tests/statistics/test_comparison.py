"""Contrasts between two runs against SciPy's tests, algebra written out by hand, and simulated studies."""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from synthetic_rows import POLICIES, by_arm, sweep

from polarlens.statistics.comparison import compare_sides, side
from polarlens.statistics.damage import ArmDamage, Condition, Damages
from polarlens.statistics.intervals import moments
from polarlens.statistics.pairing import Side, shared_items

ARMS = ("angular", "magnitude")


def planted(
    name: str,
    item: Sequence[str],
    damage: Mapping[float, np.ndarray],
    tokens: np.ndarray,
    *,
    measure: str = "nll",
    layers: str = "8-15",
    policies: Mapping[str, Mapping[str, object]] | None = None,
    seeds: int = 1,
    cluster: Sequence[str] | None = None,
    usable: Mapping[float, bool] | None = None,
    block: Mapping[float, str] | None = None,
) -> Side:
    """A run whose damages are given: delta -> (2, I, seeds) sums of nll damage, angular and magnitude."""
    n = len(item)
    items = pd.DataFrame(
        {"task": ["loss"] * n, "item": item, "label": cluster or item, "n_tokens": tokens.astype(float)}
    )
    items["cluster"] = pd.factorize(items["label"], sort=True)[0]
    arms, good = [], {}
    for delta, values in damage.items():
        condition = Condition("loss", (block or {}).get(delta, layers), "all", "matched", delta)
        good[condition] = (usable or {}).get(delta, True)
        for k, arm in enumerate(ARMS):
            x = values[k].reshape(n, -1)
            found = {"nll": x, "nll_item": x / tokens[:, None], "kl": abs(x)}
            arms.append(ArmDamage(condition, arm, np.arange(n), np.arange(seeds), found, 0.0, delta, True, 0.0))
    return Side(name, Damages(items, tuple(arms), (), (), 0, 0), good, policies or POLICIES["matched"], measure)


def entry(found: list[dict], kind: str, arm: str | None = None, delta: float = 0.1) -> dict:
    (one,) = [e for e in found if (e["kind"], e["arm"], e["delta"]) == (kind, arm, delta)]
    return one


def names(n: int, start: int = 0) -> list[str]:
    return [f"{k:04d}" for k in range(start, start + n)]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def skewed(rng: np.random.Generator, n: int, means: tuple[float, float], size: np.ndarray | None = None) -> np.ndarray:
    """(2, n) damages per token of skewed items with an effect that the arms share."""
    own = rng.gamma(2.0, 0.5, n) if size is None else size
    return np.array(means)[:, None] * own * (1.0 + 0.2 * rng.standard_normal((2, n)))


def test_paired_means_are_the_paired_t_test(rng):
    size, ones = rng.gamma(2.0, 0.5, 40), np.ones(40)
    x, y = skewed(rng, 40, (2.0, 1.0), size), skewed(rng, 40, (1.5, 1.0), size)
    found = compare_sides(
        planted("a", names(40), {0.1: x}, ones, measure="nll_item"),
        planted("b", names(40), {0.1: y}, ones, measure="nll_item"),
    )
    for arm, one, other in (("angular", x[0], y[0]), ("magnitude", x[1], y[1]), (None, x[0] - x[1], y[0] - y[1])):
        oracle = stats.ttest_rel(one, other)
        got = entry(found, "difference", arm)
        assert got["paired"]
        assert got["value"] == pytest.approx(one.mean() - other.mean(), rel=1e-12)
        assert got["ci95"] == pytest.approx(list(oracle.confidence_interval()), rel=1e-9)
        assert got["p_holm"] == pytest.approx(oracle.pvalue, rel=1e-6)
        assert (got["value_a"], got["value_b"]) == pytest.approx((one.mean(), other.mean()))


def test_other_items_give_welchs_test(rng):
    x, y = skewed(rng, 30, (2.0, 1.0)), 3.0 * skewed(rng, 55, (1.5, 1.0))
    found = compare_sides(
        planted("a", names(30), {0.1: x}, np.ones(30)), planted("b", names(55, start=900), {0.1: y}, np.ones(55))
    )
    oracle = stats.ttest_ind(x[0] - x[1], y[0] - y[1], equal_var=False)
    got = entry(found, "difference")
    assert not got["paired"]
    assert got["ci95"] == pytest.approx(list(oracle.confidence_interval()), rel=1e-9)
    assert got["p_holm"] == pytest.approx(oracle.pvalue, rel=1e-6)
    assert (got["n_items_a"], got["n_items_b"]) == (30, 55)


def test_texts_cut_into_different_numbers_of_tokens_are_paired_by_their_influence(rng):
    """Two ratios of sums with weights of their own: the difference and its variance written out."""
    n, size = 25, rng.gamma(2.0, 0.5, 25)
    t, u = rng.integers(5, 60, n).astype(float), rng.integers(5, 60, n).astype(float)
    s, r = t * skewed(rng, n, (2.0, 1.0), size), u * skewed(rng, n, (1.5, 1.0), size)
    found = compare_sides(planted("a", names(n), {0.1: s}, t), planted("b", names(n), {0.1: r}, u))
    d_a, d_b = s.sum(1) / t.sum(), r.sum(1) / u.sum()
    psi_a, psi_b = (s - d_a[:, None] * t) / t.mean(), (r - d_b[:, None] * u) / u.mean()
    quantile = stats.t.ppf(0.975, n - 1)

    def by_hand(value: float, psi: np.ndarray) -> list[float]:
        half = quantile * np.sqrt(n / (n - 1) * (psi**2).sum()) / n
        return [value - half, value + half]

    difference = entry(found, "difference")
    psi = (psi_a[0] - psi_a[1]) - (psi_b[0] - psi_b[1])
    assert difference["ci95"] == pytest.approx(by_hand((d_a[0] - d_a[1]) - (d_b[0] - d_b[1]), psi), rel=1e-9)
    ratio = entry(found, "ratio")
    psi = psi_a[0] / d_a[0] - psi_a[1] / d_a[1] - psi_b[0] / d_b[0] + psi_b[1] / d_b[1]
    value = np.log(d_a[0] / d_a[1] / (d_b[0] / d_b[1]))
    assert np.log(ratio["ci95"]) == pytest.approx(by_hand(value, psi), rel=1e-9)
    assert ratio["value"] == pytest.approx(ratio["value_a"] / ratio["value_b"])
    assert ratio["value_a"] == pytest.approx(d_a[0] / d_a[1])


def test_the_order_of_the_runs_turns_the_sign(rng):
    x, y = skewed(rng, 20, (2.0, 1.0)), skewed(rng, 20, (1.0, 1.0))
    a, b = planted("a", names(20), {0.1: x}, np.ones(20)), planted("b", names(20), {0.1: y}, np.ones(20))
    forth, back = compare_sides(a, b), compare_sides(b, a)
    assert entry(forth, "difference")["value"] == pytest.approx(-entry(back, "difference")["value"])
    assert entry(forth, "ratio")["value"] == pytest.approx(1.0 / entry(back, "ratio")["value"])
    assert entry(forth, "ratio")["ci95"] == pytest.approx([1.0 / end for end in entry(back, "ratio")["ci95"][::-1]])


def test_items_are_matched_by_content_whatever_their_order(rng):
    x, y = skewed(rng, 20, (2.0, 1.0)), skewed(rng, 20, (1.0, 1.0))
    order = rng.permutation(20)
    a, b = planted("a", names(20), {0.1: x}, np.ones(20)), planted("b", names(20), {0.1: y}, np.ones(20))
    turned = planted("b", [names(20)[k] for k in order], {0.1: y[:, order]}, np.ones(20))
    assert entry(compare_sides(a, turned), "ratio")["ci95"] == pytest.approx(
        entry(compare_sides(a, b), "ratio")["ci95"], rel=1e-9
    )


@pytest.mark.parametrize(("shared", "paired"), [(20, True), (10, True), (9, False), (0, False)])
def test_the_common_items_are_used_where_they_are_half_of_the_smaller_set(rng, shared, paired):
    x, y = skewed(rng, 20, (2.0, 1.0)), skewed(rng, 30, (1.0, 1.0))
    a = planted("a", names(20), {0.1: x}, np.ones(20))
    b = planted("b", names(30, start=20 - shared), {0.1: y}, np.ones(30))
    got = entry(compare_sides(a, b), "difference", "angular")
    assert shared_items(a, b, "loss") == (20, 30, shared)
    assert got["paired"] == paired
    assert got["n_items_a"] == (shared if paired else 20)
    want = (x[0, -shared:], y[0, :shared]) if paired else (x[0], y[0])
    assert got["value"] == pytest.approx(want[0].mean() - want[1].mean())


def test_clusters_hold_across_runs(rng):
    x, y = skewed(rng, 24, (2.0, 1.0)), skewed(rng, 24, (1.0, 1.0))
    verbs = [f"v{k // 3}" for k in range(24)]
    found = compare_sides(
        planted("a", names(24), {0.1: x}, np.ones(24), cluster=verbs),
        planted("b", names(24), {0.1: y}, np.ones(24), cluster=verbs),
    )
    means = (x - y)[0].reshape(8, 3).mean(1)
    assert entry(found, "difference", "angular")["ci95"] == pytest.approx(
        list(stats.ttest_1samp(means, 0.0).confidence_interval()), rel=1e-9
    )


def test_shared_draws_keep_the_seed_as_a_factor(rng):
    """Under the policy that gives all items of a length one draw, seeds do not average away over items."""
    n, seeds = 30, 4
    move = rng.standard_normal(seeds)
    x, y = (rng.gamma(2.0, 0.5, (2, n, 1)) + 1.0 + move * np.ones((2, n, 1)) for _ in range(2))
    policies = {"matched": {"across_items": "by-length"}}
    made = [
        planted(name, names(n), {0.1: v}, np.ones(n), seeds=seeds, policies=policies)
        for name, v in (("a", x), ("b", y))
    ]
    got = entry(compare_sides(*made), "difference", "angular")
    want = moments((x - y)[:1], shared_draws=True).linear(1.0).interval()
    assert got["ci95"] == pytest.approx(list(want), rel=1e-9)
    apart = [made[0], planted("b", names(n, 500), {0.1: y}, np.ones(n), seeds=seeds, policies=policies)]
    wide = entry(compare_sides(*apart), "difference", "angular")["ci95"]
    assert wide[1] - wide[0] > 3 * (got["ci95"][1] - got["ci95"][0])


def test_deltas_are_a_family_and_an_unusable_one_is_not_tested(rng):
    deltas = (0.05, 0.1, 0.2)
    x, y = ({d: d * skewed(rng, 40, (2.0, 1.0)) for d in deltas} for _ in range(2))
    a = planted("a", names(40), x, np.ones(40))
    b = planted("b", names(40), y, np.ones(40), usable={0.2: False})
    found = compare_sides(a, b)
    raw = [stats.ttest_rel(x[d][0], y[d][0]).pvalue for d in (0.05, 0.1)]
    low, high = sorted(raw)
    adjusted = sorted(entry(found, "difference", "angular", d)["p_holm"] for d in (0.05, 0.1))
    assert adjusted == pytest.approx([min(1.0, 2 * low), max(min(1.0, 2 * low), high)], rel=1e-6)
    usable, floor = (entry(found, "difference", "angular", d) for d in (0.1, 0.2))
    assert usable["ci_simultaneous"][0] < usable["ci95"][0]
    assert (floor["p_holm"], floor["ci_simultaneous"]) == (None, None)
    assert "floor" in floor["why"]
    assert floor["ci95"] is not None


def test_only_what_both_runs_have_is_compared(rng):
    x = skewed(rng, 20, (2.0, 1.0))
    a = planted("a", names(20), {0.1: x, 0.3: x}, np.ones(20), layers="4-7")
    b = planted("b", names(20), {0.1: 1.1 * x, 0.5: x}, np.ones(20), layers="8-15")
    found = compare_sides(a, b)
    assert {one["delta"] for one in found} == {0.1}
    assert [(one["layers"], one["layers_a"], one["layers_b"]) for one in found] == [(None, "4-7", "8-15")] * 4


def test_blocks_perturbed_one_at_a_time_are_matched_by_number(rng):
    x = skewed(rng, 20, (2.0, 1.0))
    kwargs = {"block": {0.1: "0", 0.2: "1"}}
    a = planted("a", names(20), {0.1: x, 0.2: x}, np.ones(20), **kwargs)
    b = planted("b", names(20), {0.1: x, 0.2: x}, np.ones(20), block={0.1: "0", 0.2: "2"})
    assert {one["layers"] for one in compare_sides(a, b)} == {"0"}
    assert {one["layers"] for one in compare_sides(a, a)} == {"0", "1"}


def test_a_ratio_needs_all_four_damages_above_zero(rng):
    x, y = skewed(rng, 20, (2.0, 1.0)), skewed(rng, 20, (1.0, 0.0)) - 0.3
    found = compare_sides(
        planted("a", names(20), {0.1: x}, np.ones(20)), planted("b", names(20), {0.1: y}, np.ones(20))
    )
    got = entry(found, "ratio")
    assert (got["value"], got["ci95"], got["p_holm"], got["defined"]) == (None, None, None, False)
    assert got["why"] == "the magnitude damage of model_b has no interval above 0"
    assert entry(found, "difference")["defined"]


def test_a_run_against_itself_is_no_estimate(rng):
    a = planted("a", names(20), {0.1: skewed(rng, 20, (2.0, 1.0))}, np.ones(20))
    for one in compare_sides(a, a):
        assert one["value"] == pytest.approx(1.0 if one["kind"] == "ratio" else 0.0, abs=1e-12)
        assert one["ci95"] is None
        assert "zero variance" in one["why"]


def test_accuracy_from_rows_has_the_sign_of_a_run_and_no_certainty_without_discordant_items():
    a = sweep(drop=by_arm(30.0, 5.0), n_pairs=60, seed=1)
    b = sweep(drop=by_arm(5.0, 5.0), n_pairs=60, seed=2)
    made = [side(n, rows, policies=POLICIES["matched"], unigram_nll=None) for n, rows in (("a", a), ("b", b))]
    found = compare_sides(*made, ["pairs"])
    assert {one["measure"] for one in found} == {"accuracy"}
    assert {one["kind"] for one in found} == {"difference"}
    at = [one for one in found if (one["delta"], one["policy_id"], one["arm"]) == (0.2, "matched-common", None)]
    assert at[0]["value"] > 20.0
    assert at[0]["ci95"][0] > 0
    # nothing flips at all: as wide as the rule of three says, not zero
    still = side("c", sweep(drop=by_arm(0.0, 0.0), n_pairs=60, seed=1), policies=POLICIES["matched"], unigram_nll=None)
    same = next(one for one in compare_sides(still, still, ["pairs"]) if one["arm"] is None)
    assert same["ci95"] == pytest.approx([-5.0, 5.0])
    moved = still.measured.items.assign(item=lambda frame: "other" + frame["item"])
    other = Side("d", Damages(moved, still.measured.arms, (), (), 0, 0), still.usable, still.policies, "nll")
    apart = next(one for one in compare_sides(still, other, ["pairs"]) if one["arm"] is None)
    assert not apart["paired"]
    assert apart["ci95"][1] == pytest.approx(5.0 * np.sqrt(2.0))


def test_entries_are_strict_json(rng):
    a = planted("a", names(9), {0.1: skewed(rng, 9, (2.0, 1.0))}, np.ones(9))
    b = planted("b", ["0000"], {0.1: np.ones((2, 1))}, np.ones(1))
    json.dumps(compare_sides(a, b), allow_nan=False)


def coverage(studies: int, n: int, paired: bool, seed: int) -> dict[str, float]:
    """Shares of simulated studies whose 95 % interval holds the population's value.

    Two models read the same (or other) skewed texts with token counts of their own; items have an effect that both
    models share, and rates that depend on length, so that ratios of sums differ from means of ratios.
    """
    rng = np.random.default_rng(seed)
    rates = {"a": (2.0, 1.0), "b": (1.2, 0.8)}
    lengths = np.arange(5, 65)
    mean_rate = float((lengths * (4.0 / lengths + 0.2)).mean() / lengths.mean())
    truth = {k: [m * mean_rate for m in pair] for k, pair in rates.items()}
    want = {
        ("difference", None): (truth["a"][0] - truth["a"][1]) - (truth["b"][0] - truth["b"][1]),
        ("difference", "angular"): truth["a"][0] - truth["b"][0],
        ("ratio", None): (2.0 / 1.0) / (1.2 / 0.8),
    }
    hits = dict.fromkeys(want, 0)
    for _ in range(studies):
        effect = {"a": rng.exponential(1.0, n)}
        effect["b"] = effect["a"] if paired else rng.exponential(1.0, n)
        length = {k: rng.integers(5, 65, n).astype(float) for k in rates}
        sides = []
        for k, pair in rates.items():
            t = length[k]
            noise = 0.3 * rng.standard_normal((2, n))
            s = np.array(pair)[:, None] * (effect[k] * (4.0 / t + 0.2) + noise * 0.2) * t
            item = names(n) if paired or k == "a" else names(n, 5000)
            sides.append(planted(k, item, {0.1: s}, t))
        for one in compare_sides(*sides, ["loss"]):
            key = (one["kind"], one["arm"])
            if key in want and one["ci95"] is not None:
                hits[key] += one["ci95"][0] <= want[key] <= one["ci95"][1]
    return {f"{kind} {arm}": share / studies for (kind, arm), share in hits.items()}


@pytest.mark.parametrize("paired", [True, False])
def test_the_intervals_cover(paired):
    for name, share in coverage(300, 80, paired, seed=3).items():
        assert 0.90 <= share <= 0.985, name


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("paired", [True, False])
def test_the_intervals_cover_in_full(paired):
    found = coverage(10_000, 80, paired, seed=4)
    print(found)
    for name, share in found.items():
        assert 0.93 <= share <= 0.97, name
