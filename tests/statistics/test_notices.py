"""Contrasts that sinks decide are told as warnings."""

import pytest
from synthetic_rows import POLICIES, by_arm, sweep

from polarlens.statistics import summarise

SINKS = {"positions": ("all", "no-sinks"), "n_texts": 30, "n_pairs": 40, "seeds": 1, "deltas": (0.1, 0.2)}


def warnings(rows) -> list[str]:
    found = summarise(rows, model="m", preset="matched", policies=POLICIES["matched"], unigram_nll=99.0)["warnings"]
    return [one for one in found if "sinks decide" in one]


@pytest.fixture(scope="module")
def rows():
    return sweep(loss=by_arm(0.1, 0.3), drop=by_arm(20.0, 2.0), **SINKS)


def test_alike_with_and_without_sinks_is_no_warning(rows):
    assert warnings(rows) == []


def test_intervals_that_do_not_overlap_are_named(rows):
    """At delta 0.2 alone the angular loss damage is halved where sinks stay clean."""
    clean = rows[rows["arm"] == "clean"].set_index("item")["nll"]
    there = (rows["positions"] == "no-sinks") & (rows["delta"] == 0.2) & (rows["arm"] == "angular")
    there &= rows["task"] == "loss"
    changed = rows.copy()
    base = changed.loc[there, "item"].map(clean)
    changed.loc[there, "nll"] = base + 0.5 * (changed.loc[there, "nll"] - base)
    found = warnings(changed)
    assert [one.split(" differs ")[0] for one in found] == [
        "loss, policy matched: the difference of the arms",
        "loss, policy matched: the ratio of the arms",
    ]
    assert all("at delta 0.2 ([" in one and "0.1 ([" not in one for one in found)
    # intervals that touch are no warning: moved by a tenth, they overlap
    slight = rows.copy()
    slight.loc[there, "nll"] = base + 0.98 * (slight.loc[there, "nll"] - base)
    assert "difference" not in "".join(warnings(slight))


def test_a_pair_policy_is_named_for_the_accuracy(rows):
    there = (rows["positions"] == "no-sinks") & (rows["policy_id"] == "matched-independent")
    changed = rows.copy()
    changed.loc[there, "arm"] = changed.loc[there, "arm"].map({"angular": "magnitude", "magnitude": "angular"})
    found = warnings(changed)
    assert len(found) == 1
    assert found[0].startswith("pairs, policy matched-independent: the difference of the arms differs")
