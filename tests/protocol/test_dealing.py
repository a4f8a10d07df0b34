"""Dealing units to workers and placing workers on nodes, without Ray."""

from polarlens.protocol.executors.cluster import OVERHEAD, places
from polarlens.protocol.executors.dealing import AT_MOST, Deal
from polarlens.protocol.plan import NOTHING, Unit


def unit(name: str, task: str = "loss") -> Unit:
    return Unit("sweep", task, (0,), ((task, name),), NOTHING)


def test_every_unit_is_dealt_once():
    units = [unit(str(k)) for k in range(5)]
    deal = Deal(units)
    assert [deal.next(k % 2) for k in range(6)] == [*units, None]
    assert deal.waiting == 0


def test_trees_come_first_and_stay_with_one_worker():
    trees = [unit(name, "trees") for name in "ab"]
    plain = [unit(name) for name in "cd"]
    deal = Deal([*plain, *trees])
    assert deal.next(1) == trees[0]
    assert [deal.next(2), deal.next(2), deal.next(2)] == [*plain, None]
    assert deal.next(1) == trees[1]


def test_trees_of_a_lost_worker_go_to_another():
    trees = [unit(name, "trees") for name in "ab"]
    deal = Deal(trees)
    assert deal.next(1) == trees[0]
    assert deal.lost(1, trees[0])
    assert [deal.next(2), deal.next(3), deal.next(2)] == [trees[0], None, trees[1]]


def test_a_unit_is_dealt_at_most_three_times():
    deal = Deal([unit("a"), unit("b")])
    again = []
    for worker in range(AT_MOST):
        assert deal.next(worker) == unit("a")
        again.append(deal.lost(worker, unit("a")))
    assert again == [True, True, False]
    assert deal.rest() == [unit("b")]
    assert deal.waiting == 0


def node(name: str, alive: bool = True, **resources: float) -> dict[str, object]:
    return {"NodeID": name, "Alive": alive, "Resources": resources}


def test_workers_per_node():
    nodes = [
        node("big", CPU=16.0, GPU=4.0, memory=64 * OVERHEAD),
        node("small", CPU=2.0, memory=64 * OVERHEAD),
        node("head", CPU=0.0),
        node("gone", alive=False, CPU=16.0, GPU=8.0),
        node("tight", CPU=16.0, memory=6 * OVERHEAD),
    ]
    assert places(nodes, device="cuda", threads=8, weights=OVERHEAD) == {"big": (4, 1.0)}
    assert places(nodes, device="cpu", threads=4, weights=OVERHEAD) == {
        "big": (4, 4.0),
        "small": (1, 2.0),
        "tight": (2, 4.0),
    }
    assert places([node("mac", CPU=8.0)], device="mps", threads=4, weights=0) == {"mac": (1, 4.0)}
    assert places([node("few", CPU=2.0, GPU=4.0)], device="cuda", threads=2, weights=0) == {"few": (4, 0.5)}
