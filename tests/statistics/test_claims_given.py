"""C3 to C7 from contrasts handed in: orientation, bands, Holm, the number shown, the reasons."""

import json
import math

import pytest
from synthetic_rows import POLICIES, by_arm, sweep

from polarlens.statistics import summarise
from polarlens.statistics.claims_given import Given, given_entry
from polarlens.statistics.intervals import Estimate
from polarlens.statistics.order import order_status
from polarlens.statistics.published import CLAIMS

CLAIM = {one.id: one for one in CLAIMS}
SETTING = {"model": "m", "preset": "matched", "delta_mode": "relative", "n_layers": 12}


def judged(id_, given, **more):
    entry = given_entry(CLAIM[id_], given, **{**SETTING, **more})
    json.dumps(entry, allow_nan=False)
    return entry


def one(value, se=0.01, **more):
    return Given(Estimate(value, se, 50.0), **{"delta": 0.1, "layers": "8-15", **more})


@pytest.mark.parametrize(
    ("id_", "value", "se", "status"),
    [
        ("C3", 0.13, 0.01, "replicates"),
        ("C3", -0.13, 0.01, "contradicts"),
        ("C3", 0.005, 0.004, "contradicts"),  # inside +-0.02
        ("C3", 0.005, 0.02, "inconclusive"),
        ("C3", 0.015, 0.004, "replicates"),  # order, not size: the sign stands though the interval is in the band
        ("C4", -0.16, 0.01, "replicates"),  # handed in as angular - magnitude
        ("C4", 0.16, 0.01, "contradicts"),
        ("C5", math.log(3.0), 0.1, "replicates"),
        ("C5", math.log(0.5), 0.1, "contradicts"),
        ("C5", math.log(1.01), 0.02, "contradicts"),  # between 0.9 and 1.11
        ("C5", math.log(1.09), 0.06, "inconclusive"),
        ("C6", 50.0, 1.0, "replicates"),
        ("C6", 0.1, 0.5, "contradicts"),
        ("C7", 0.05, 0.01, "replicates"),
        ("C7", 0.001, 0.002, "contradicts"),
        ("C7", 0.01, 0.02, "inconclusive"),
    ],
)
def test_status(id_, value, se, status):
    assert judged(id_, [one(value, se)])["status"] == status


def test_numbers_are_in_the_published_orientation_and_scale():
    c4, c5 = judged("C4", [one(-0.16)]), judged("C5", [one(math.log(3.0), 0.1)])
    t = 2.00856  # 97.5 % of t with 50 degrees of freedom
    assert c4["measured"] == pytest.approx(0.16)
    assert c4["ci95"] == pytest.approx([0.16 - t * 0.01, 0.16 + t * 0.01], rel=1e-4)
    assert c5["measured"] == pytest.approx(3.0)
    assert c5["ci95"] == pytest.approx([3.0 * math.exp(-t * 0.1), 3.0 * math.exp(t * 0.1)], rel=1e-4)


def test_nothing_handed_in():
    for id_, needs in (("C3", "repair"), ("C5", "propagation"), ("C6", "treebank"), ("C8", "compare.json")):
        assert needs in judged(id_, [])["why"]


def test_undefined_and_unusable():
    undefined = Given(Estimate(None, why="the damage's interval is not above 0"), delta=0.1)
    found = judged("C3", [undefined])
    assert (found["status"], found["measured"], found["ci95"]) == ("inconclusive", None, None)
    assert "not above 0" in found["why"]
    unusable = one(0.5, usable=False)
    found = judged("C3", [unusable])
    assert (found["status"], found["measured"]) == ("inconclusive", 0.5)
    assert "no comparison is usable" in found["why"]
    # an undefined one still counts in the family: p 0.019 does not stand among two
    weak = one(2.1, 1.0)
    assert judged("C3", [weak])["status"] == "replicates"
    assert judged("C3", [weak, undefined])["status"] == "inconclusive"
    assert judged("C3", [weak, unusable])["status"] == "replicates"


def test_which_number_is_shown():
    grid = [one(v, delta=d) for v, d in ((0.1, 0.02), (0.2, 0.08), (0.3, 0.5))]
    found = judged("C3", grid)
    assert (found["measured"], found["delta"]) == (0.2, 0.08)
    assert "at delta 0.02 layers 8-15, delta 0.08 layers 8-15" in found["why"]
    assert found["why"].endswith("measured at delta 0.08 layers 8-15")
    absolute = judged("C3", [one(v, delta=d) for v, d in ((0.1, 1.0), (0.2, 5.0))], delta_mode="absolute")
    assert absolute["delta"] == 5.0
    blocks = [Given(Estimate(float(b), 0.5, 50.0), block=b) for b in (0, 3, 6, 9, 11)]
    assert judged("C6", blocks)["measured"] == 6.0
    assert judged("C6", blocks[:2])["measured"] == 3.0
    assert judged("C6", blocks, n_layers=None)["measured"] == 6.0
    assert "block 3, block 6" in judged("C6", blocks)["why"]


@pytest.mark.parametrize(
    ("id_", "value", "where", "agrees"),
    [
        ("C3", 0.13, {"delta": 5.0}, True),
        ("C3", 0.23, {"delta": 5.0}, False),
        ("C3", 0.13, {"delta": 10.0}, None),
        ("C3", 0.13, {"delta": 5.0, "layers": "4-7"}, None),
        ("C4", -0.16, {"delta": 5.0}, True),
        ("C5", math.log(3.2), {"delta": 5.0}, True),
        ("C6", 51.9, {"delta": None, "layers": None, "block": 12}, True),
        ("C7", 0.1, {"delta": None, "layers": None, "block": 12}, None),
    ],
)
def test_size(id_, value, where, agrees):
    published = {"model": "EleutherAI/pythia-410m", "preset": "notebook", "delta_mode": "absolute", "n_layers": 24}
    assert judged(id_, [one(value, **where)], **published)["size_agrees"] is agrees
    assert judged(id_, [one(value, **where)])["size_agrees"] is None


def test_through_the_summary():
    rows = sweep(by_arm(0.1, 0.3), by_arm(20.0, 2.0), n_texts=6, n_pairs=6)
    options = {"model": "m", "preset": "matched", "policies": POLICIES["matched"], "unigram_nll": 99.0}
    refused = [{"experiment": "repair", "what": "attention", "why": "no module could be told apart"}]
    found = summarise(rows, **options, skipped=refused, not_run={"C4": "the norms could not be verified"})
    claims = {c["id"]: c for c in found["claims"]}
    assert (claims["C3"]["status"], claims["C3"]["why"]) == ("not_run", "attention: no module could be told apart")
    assert (claims["C4"]["status"], claims["C4"]["why"]) == ("not_run", "the norms could not be verified")
    assert claims["C5"]["why"] == "propagation was not run"


def test_places_are_named():
    estimates = [Estimate(v, 1.0, 100.0) for v in (9.0, 0.0, 8.0)]
    status, why = order_status(estimates, [False] * 3, ["delta 0.1", "delta 0.2", "delta 0.5"])
    assert status == "replicates"
    assert "at delta 0.1, delta 0.5 (2 of 3 comparisons)" in why
    assert "not the size" in why
    assert "(1 of 2 comparisons)" in order_status([Estimate(-9.0, 1.0, 9.0), Estimate(0.0, 1.0, 9.0)], [False] * 2)[1]


def test_an_order_within_the_band_is_told():
    """The rule tests signs: a sure but negligible effect replicates, and the reader hears that it is negligible."""
    estimates = [Estimate(0.04, 0.001, 100.0), Estimate(0.5, 0.01, 100.0), Estimate(0.0, 1.0, 100.0)]
    within = "which lies within the band of equivalence"
    status, why = order_status(estimates[:1], [True])
    assert (status, within in why) == ("replicates", True)
    assert within in order_status([estimates[0], estimates[2]], [True, False])[1]
    assert within not in order_status(estimates[:2], [True, False])[1]
