"""Probing as an experiment: probes of clean states, the same after each arm, and what the probed blocks compute."""

import pandas as pd

from polarlens.models.sites import FINAL_NORM
from polarlens.probing import default_blocks
from polarlens.probing.split import split
from polarlens.protocol import sweep
from polarlens.protocol.bench import Bench
from polarlens.protocol.checks import Distances
from polarlens.protocol.config import Task, grid
from polarlens.protocol.plan import Asked, ItemKey, Unit, Wanted, full_cross
from polarlens.protocol.prepared import Prepared
from polarlens.protocol.presets import POLICIES
from polarlens.protocol.progress import Advance
from polarlens.protocol.tasks import TaskData
from polarlens.rows.store import Rows
from polarlens.statistics.order import reference_delta

_NO_TASK = {"task": None}  # a probe's rows are about no loss


def wanted(prepared: Prepared) -> list[Wanted]:
    """Probes of clean states; the same after both arms at the reference delta; each probed block perturbed alone.

    The perturbations are those of the first policy and positions. Probes are read again at the layers of the run on
    the held-out sentences, each seed for itself; texts and pairs tell what a probed block alone carries.
    """
    trees = prepared.trees
    if trees is None:
        return []
    out = [Wanted("probing", "trees", ((),), trees.keys, frozenset(), control=False, whole=True)]
    held_out, groups = _held_out(trees), tuple(group for group in prepared.groups if _seen(prepared, group))
    for seed in range(prepared.config.seeds if groups else 0):
        asked, part = _asked(prepared, "trees", range(seed, seed + 1)), f"after, seed {seed}"
        out.append(Wanted("probing", "trees", groups, held_out, asked, False, False, part, whole=True))
    alone = tuple((block,) for block in default_blocks(prepared.lm.n_layers) if block >= 0)
    for task in prepared.tasks:
        asked = _asked(prepared, task.task, range(prepared.config.seeds))
        out.append(Wanted("probing", task.task, alone, task.keys, asked, control=False))
    return out


def skipped(prepared: Prepared) -> list[dict[str, str]]:
    """What cannot be read after a perturbation, and what has no data."""
    out = []
    if not all(_seen(prepared, group) for group in prepared.groups):
        out.append(("after a perturbation of the last block", "its output cannot be seen: no final norm was verified"))
    for task, option in (("loss", "--text"), ("pairs", "--pairs")):
        if all(one.task != task for one in prepared.tasks):
            out.append((f"single blocks, task {task}", f"{option} was not given"))
    return [{"experiment": "probing", "what": what, "why": why} for what, why in out]


def rows(bench: Bench, unit: Unit, advance: Advance) -> Rows:
    """Rows of one unit: of probes as a table, of single blocks as the sweep's."""
    if unit.task != "trees":
        return sweep.rows(bench, unit, advance)
    task = bench.tasks["trees"]
    tokens = sum(len(ids) for key in unit.items for ids in task.by_key[key].sequences)
    probed = bench.probed
    if unit.work.clean:
        advance(tokens)
        return probed.clean().assign(**bench.base(unit) | _NO_TASK | {"layers": None, "delta_mode": None})
    engine = bench.engine(unit, POLICIES[bench.config.preset]["trees"])
    advance(tokens)
    distances, found = Distances(), []
    for condition, frame, realised in probed.after(engine, [asked.condition for asked in unit.in_order]):
        found.append(frame)
        for one in realised:
            distances.add(condition, one)
        advance(tokens)
    distances.check(engine.protocol, allow_mismatch=bench.allow_mismatch)
    return pd.concat(found, ignore_index=True).assign(**bench.base(unit) | _NO_TASK)


def _asked(prepared: Prepared, task: Task, seeds: range) -> frozenset[Asked]:
    """Both arms at the reference delta, under the first policy and positions."""
    config = prepared.config
    name, policy = next(iter(POLICIES[config.preset][task].items()))
    delta = reference_delta(grid(config, task), config.delta_mode)
    return full_cross({name: policy}, (config.positions or ("all",))[:1], [delta], seeds)


def _held_out(trees: TaskData) -> tuple[ItemKey, ...]:
    """The sentences that no probe is trained on."""
    chosen = split([encoded.item.cluster for encoded in trees.encoding.items])["test"]
    held = {(e.item.dataset, e.item.item) for e, is_held in zip(trees.encoding.items, chosen, strict=True) if is_held}
    return tuple(key for key in trees.keys if key in held)


def _seen(prepared: Prepared, layers: tuple[int, ...]) -> bool:
    """Whether the states after a perturbation of these layers can be read."""
    lm = prepared.lm
    return lm.n_layers - 1 not in layers or lm.anatomy.sites[FINAL_NORM].available
