"""The published numbers beside a run's: which of them, the run's own by hand, and when sizes are compared."""

import numpy as np
import pandas as pd
import pytest
from synthetic_rows import POLICIES, sweep
from test_repairs import planted

from polarlens.statistics.published import CLAIMS
from polarlens.statistics.published_numbers import NUMBERS, published_as, published_recovery
from polarlens.statistics.summary import summarise

# As published at delta = 1 and 5 (0.368 / 42.87 was rounded to 0.009), so that sizes agree; accuracy drops are others.
LOSS = {("angular", 1.0): 0.368, ("magnitude", 1.0): 0.368 / 42.87, ("angular", 5.0): 3.757, ("magnitude", 5.0): 0.700}


def rows(**more) -> pd.DataFrame:
    return sweep(
        lambda arm, delta: LOSS[arm, delta],
        lambda arm, delta: {"magnitude": 3.0, "angular": 40.0}[arm],
        **{"preset": "paper", "delta_mode": "absolute", "deltas": (1.0, 5.0), "n_texts": 200, "seed": 3, **more},
    )


def published(table, model="EleutherAI/pythia-410m", preset="paper", **more):
    return summarise(table, model=model, preset=preset, policies=POLICIES[preset], **more).get("published")


def find(found, what, **wanted):
    (one,) = [e for e in found if e["what"] == what and all(e[key] == value for key, value in wanted.items())]
    return one


def test_the_numbers_are_those_of_the_claims():
    def value(what, **wanted):
        named = [n for n in NUMBERS if n.what == what and all(getattr(n, key) == w for key, w in wanted.items())]
        (one,) = [n for n in named if n.model == "pythia-410m"]
        return one.value

    paper = {claim.id: claim.paper for claim in CLAIMS}
    assert value("ratio", delta=1.0) == pytest.approx(paper["C1"], abs=0.05)
    drops = {arm: value("damage", delta=5.0, task="pairs", arm=arm) for arm in ("angular", "magnitude")}
    assert drops["magnitude"] - drops["angular"] == pytest.approx(paper["C2"])
    for claim, repair, sign in (("C3", "attention", 1), ("C4", "norm", -1)):
        difference = published_recovery(repair, "angular") - published_recovery(repair, "magnitude")
        assert sign * difference == pytest.approx(paper[claim])
    for delta in (1.0, 2.0, 5.0, 10.0, 15.0, 20.0):
        angular, magnitude = (value("damage", delta=delta, task="loss", arm=arm) for arm in ("angular", "magnitude"))
        # both damages are rounded to 0.0005
        low, high = (angular - 5e-4) / (magnitude + 5e-4), (angular + 5e-4) / (magnitude - 5e-4)
        assert low - 0.005 <= value("ratio", delta=delta) <= high + 0.005


def test_measured_by_hand_and_sizes_where_the_setting_is_the_published_one():
    table = rows()
    found = published(table)
    assert len(found) == sum(number.model == "pythia-410m" for number in NUMBERS)
    clean = table[(table.arm == "clean") & (table.task == "loss")].set_index("item")
    base = clean.nll / clean.n_tokens
    assert find(found, "loss")["measured"] == pytest.approx(base.mean())
    damage = {}
    for arm in ("angular", "magnitude"):
        here = table[(table.task == "loss") & (table.arm == arm) & (table.delta == 1.0)]
        damage[arm] = (here.groupby("item").nll.mean() / clean.n_tokens - base).mean()
        one = find(found, "damage", task="loss", delta=1.0, arm=arm)
        assert one["measured"] == pytest.approx(damage[arm])
        assert one["size_agrees"] is True
        assert one["ci95"][0] < LOSS[arm, 1.0] < one["ci95"][1]
    assert find(found, "ratio", delta=1.0)["measured"] == pytest.approx(damage["angular"] / damage["magnitude"])
    assert find(found, "ratio", delta=1.0)["size_agrees"] is True
    drop = find(found, "damage", task="pairs", delta=5.0, arm="angular")
    assert (drop["paper"], drop["size_agrees"], drop["why"]) == (1.6, False, None)
    assert drop["measured"] == pytest.approx(40.0, abs=10.0)
    assert find(found, "ratio", delta=20.0)["why"] == "not measured here"
    assert find(found, "recovery", repair="norm", arm="angular")["measured"] is None


def test_a_size_that_was_rounded_agrees_with_what_rounds_to_it():
    magnitude = find(published(rows(n_texts=4000)), "damage", task="loss", delta=1.0, arm="magnitude")
    assert magnitude["ci95"][1] < 0.009 - 1e-5
    assert magnitude["size_agrees"] is True


@pytest.mark.parametrize(
    ("model", "layers", "of", "why"),
    [
        ("gpt2", "8-15", "pythia-410m", "another model than the published ones"),
        ("EleutherAI/pythia-410m", "2-4", "pythia-410m", "published for layers 8-15"),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0@main", "4-7", "tinyllama", "published from ten hand-written sentences"),
    ],
)
def test_where_sizes_cannot_be_compared_the_reason_is_told(model, layers, of, why):
    found = published(rows(layers=(layers,)), model)
    assert {one["model"] for one in found} == {of}
    measured = [one for one in found if one["measured"] is not None]
    assert measured
    for one in measured:
        assert one["size_agrees"] is None
        assert why in one["why"]


def test_other_models_have_numbers_of_their_own():
    found = published(rows(), "facebook/opt-1.3b")
    assert find(found, "ratio", delta=5.0)["paper"] == 19.1
    assert find(found, "ratio", delta=5.0)["size_agrees"] is False
    assert published_as("pythia-1.4b-deduped") is None
    assert published_as("models/pythia-1.4b/") == "pythia-1.4b"


def test_no_numbers_beside_other_presets_and_displacements():
    assert published(rows(preset="matched"), preset="matched") is None
    assert published(rows(delta_mode="relative", deltas=(1.0, 5.0))) is None


def test_recoveries_are_those_of_the_repair():
    repaired = planted(n=60, policy="paper", delta=5.0, mode="absolute")
    found = published(rows(), others={"repair": repaired})
    clean = repaired[repaired.arm == "clean"].set_index("item")

    def damage(arm, name):
        part = repaired[(repaired.arm == arm) & (repaired.repair.isna() if name is None else repaired.repair == name)]
        return ((part.groupby("item").nll.mean() - clean.nll) / clean.n_tokens).mean()

    for repair in ("attention", "norm"):
        for arm in ("angular", "magnitude"):
            one = find(found, "recovery", repair=repair, arm=arm)
            assert one["measured"] == pytest.approx(1 - damage(arm, repair) / damage(arm, None))
            assert one["ci95"][0] < one["measured"] < one["ci95"][1]
            assert one["size_agrees"] in (True, False)
    # planted: attention 0.28 and 0.15 (published 0.284 and 0.152), norm 0.7 and 0.5 (0.137 and 0.299)
    assert [find(found, "recovery", repair=r, arm="angular")["size_agrees"] for r in ("attention", "norm")] == [
        True,
        False,
    ]
    assert np.isfinite([one["measured"] for one in found if one["measured"] is not None]).all()
