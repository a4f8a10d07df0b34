"""The sweep: every condition on every item, as rows."""

from typing import Any

from polarlens.perturbation.policy import ARMS
from polarlens.protocol.as_rows import clean_rows, described, outcome_rows
from polarlens.protocol.bench import Bench
from polarlens.protocol.checks import Distances
from polarlens.protocol.config import grid
from polarlens.protocol.plan import Unit, Wanted, full_cross
from polarlens.protocol.prepared import Prepared
from polarlens.protocol.presets import POLICIES
from polarlens.protocol.progress import Advance


def wanted(prepared: Prepared) -> list[Wanted]:
    """Both arms at every delta, for every task with data."""
    config = prepared.config
    return [
        Wanted(
            "sweep",
            task.task,
            prepared.groups,
            task.keys,
            full_cross(
                POLICIES[config.preset][task.task],
                config.positions or ("all",),
                grid(config, task.task),
                range(config.seeds),
            ),
        )
        for task in prepared.tasks
    ]


def rows(bench: Bench, unit: Unit, advance: Advance) -> list[dict[str, Any]]:
    """Rows of one unit; `advance` is told the real tokens of every pass that is done.

    Raises NumericalError when the mean realised distance of an arm at a layer is more than 1 % from what was asked and
    that is not allowed.
    """
    engine = bench.engine(unit, POLICIES[bench.config.preset][unit.task])
    distances = Distances()
    out: list[dict[str, Any]] = []
    for batch in bench.batches(unit):
        clean, tokens = engine.clean(batch), int(batch.mask.sum())
        advance(tokens)
        if unit.work.clean:
            out += clean_rows(batch, batch.sum_rows(clean.nll).numpy(), bench.base(unit))
        if unit.work.control:
            policy_id = next(iter(engine.protocol.policies))
            outcome = engine.control(batch, clean)
            advance(tokens)
            for arm in ARMS:
                control = {"arm": arm, "delta": 0.0, "policy_id": policy_id, "positions": "all"}
                out += outcome_rows(batch, outcome, bench.base(unit) | control)
        conditions = [asked.condition for asked in unit.in_order]
        for condition, outcome in engine.perturbed(batch, clean, conditions, bench.batch_tokens):
            out += outcome_rows(batch, outcome, bench.base(unit) | described(condition))
            advance(tokens)
            distances.add(condition, outcome.realised)
    distances.check(engine.protocol, allow_mismatch=bench.allow_mismatch)
    return out
