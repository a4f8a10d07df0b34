"""Units: every item gets every condition once, keys follow content, extensions hold only what is new."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from polarlens.perturbation import MATCHED, NOTEBOOK
from polarlens.protocol.plan import BLOCK, Unit, Wanted, Work, done_work, full_cross, missing_units

ITEMS = [("d", f"i{k}") for k in range(75)]
FULL = Work(True, True, full_cross({"p": MATCHED}, ["all", "no-sinks"], [0.1, 0.2], range(3)))


def pending(items, wanted, done, layers=(4, 5)):
    return missing_units("sweep", "loss", layers, items, wanted, done)


def covered(units):
    return [(key, c) for u in units for key in u.items for c in u.work.asked]


def test_the_full_cross():
    found = full_cross({"p": MATCHED, "n": NOTEBOOK}, ["all"], [1.0, 2.0], range(3))
    matched = [c for c in found if c.condition.policy_id == "p"]
    assert len(matched) == 2 * 2 * 3 * 2  # arms, deltas, seeds, antithetic members
    assert len(found) - len(matched) == 2 * 2 * 3  # the notebook has no antithetic members


def test_every_item_gets_every_condition_once():
    units = pending(ITEMS, FULL, {})
    assert len(units) == -(-len(ITEMS) // BLOCK)
    found = covered(units)
    assert len(found) == len(set(found)) == len(ITEMS) * len(FULL.asked)
    assert all(u.work == FULL for u in units)


def test_finished_work_is_never_planned_again():
    units = pending(ITEMS, FULL, {})
    done = done_work(u.document for u in units[:2])
    rest = pending(ITEMS, FULL, done)
    assert sorted(covered(units[:2] + rest), key=repr) == sorted(covered(units), key=repr)
    assert pending(ITEMS, FULL, done_work(u.document for u in units)) == []


def test_extensions_hold_only_what_is_new():
    done = done_work(u.document for u in pending(ITEMS, FULL, {}))
    more_seeds = Work(True, True, full_cross({"p": MATCHED}, ["all", "no-sinks"], [0.1, 0.2], range(4)))
    units = pending(ITEMS, more_seeds, done)
    assert {c.condition.seed for _, c in covered(units)} == {3}
    assert not any(u.work.clean or u.work.control for u in units)
    new_items = [("d", "new"), *ITEMS]
    assert {key for u in pending(new_items, FULL, done) for key in u.items} == {("d", "new")}


def test_layers_and_datasets_are_told_apart():
    done = done_work(u.document for u in pending(ITEMS, FULL, {}))
    assert pending(ITEMS, FULL, done, layers=(4,))
    assert pending([("other", "i0")], FULL, done)


def test_keys_follow_content():
    settings = {"model": "x"}
    units, again = pending(ITEMS, FULL, {}), pending(list(ITEMS), FULL, {})
    assert [u.key(settings) for u in units] == [u.key(settings) for u in again]
    assert len({u.key(settings) for u in units}) == len(units)
    assert units[0].key(settings) != units[0].key({"model": "y"})


def test_what_is_wanted_survives_its_document_and_knows_what_is_missing():
    wanted = Wanted("sweep", "pairs", ((1, 2), (4,)), tuple(ITEMS), FULL.asked)
    assert Wanted.from_document(wanted.document) == wanted
    units = wanted.missing({})
    assert [u.work.clean for u in units] == [u.layers == (1, 2) for u in units]
    assert wanted.missing(done_work(u.document for u in units)) == []
    assert wanted.missing(done_work(u.document for u in units[1:])) == units[:1]


def test_a_task_writes_few_files_however_many_items_and_layers():
    items = tuple(("d", f"i{k}") for k in range(5000))
    for layers in (((1,),), tuple((n,) for n in range(30))):
        wanted = Wanted("sweep", "loss", layers, items[: 5000 // len(layers)], FULL.asked)
        assert len(wanted.missing({})) <= 230


def test_a_unit_survives_its_document():
    unit = pending(ITEMS, FULL, {})[0]
    assert Unit.from_document(unit.document) == unit


@given(st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=5))
def test_whatever_was_done_the_rest_completes_it(done_seeds):
    """Parts done in any overlapping order: done and missing together are exactly what is wanted."""
    wanted = Work(True, True, full_cross({"p": MATCHED}, ["all"], [0.1], range(6)))
    items = ITEMS[:9]
    documents = []
    for n, seeds in enumerate(done_seeds):
        work = Work(n == 0, False, full_cross({"p": MATCHED}, ["all"], [0.1], seeds))
        documents += [u.document for u in pending(items[n:], work, {})] if work else []
    done = done_work(documents)
    rest = done_work([*documents, *(u.document for u in pending(items, wanted, done))])
    for one in items:
        assert rest["sweep", "loss", (4, 5), one] == wanted
    for a, b in itertools.combinations(pending(items, wanted, done), 2):
        assert not set(a.items) & set(b.items)
