"""Curvature as an experiment: the small-delta limit of both arms at each perturbed block, by second derivatives."""

from typing import Any

from polarlens.engine.batching import Batch
from polarlens.engine.conditions import Condition
from polarlens.engine.curvature import Curvature, curvatures, kinked
from polarlens.engine.fitting import fitting
from polarlens.protocol.as_rows import item_columns, with_rows
from polarlens.protocol.bench import Bench
from polarlens.protocol.config import Preset
from polarlens.protocol.plan import Asked, Unit, Wanted
from polarlens.protocol.prepared import Prepared
from polarlens.protocol.presets import POLICIES
from polarlens.protocol.progress import Advance

KINKS = (
    "rectified activations have kinks, and what those cost is in no second derivative: the limit holds only for "
    "displacements that cross none"
)


def wanted(prepared: Prepared) -> list[Wanted]:
    """One probe per seed at every perturbed block, each block perturbed alone, on the texts."""
    config = prepared.config
    layers = tuple(sorted({layer for group in prepared.groups for layer in group}))
    probes = _probes(config.preset, (config.positions or ("all",))[:1], config.seeds)
    return [
        Wanted("curvature", "loss", (layers,), task.keys, probes, control=False, clean=False)
        for task in prepared.tasks
        if task.task == "loss"
    ]


def _probes(preset: Preset, positions: tuple[str, ...], seeds: int) -> frozenset[Asked]:
    """A probe has both arms and no displacement: the limit is per delta²."""
    policy_id = next(iter(POLICIES[preset]["loss"]))
    return frozenset(
        Asked(Condition(policy_id, where, "angular", 0.0, seed, None)) for where in positions for seed in range(seeds)
    )


def skipped(prepared: Prepared) -> list[dict[str, str]]:
    """Missing texts, and what second derivatives cannot see."""
    out = []
    if all(task.task != "loss" for task in prepared.tasks):
        out.append(("curvature", "it is of the next-token loss, and --text was not given"))
    elif kinked(prepared.lm):
        out.append(("kinks", KINKS))
    return [{"experiment": "curvature", "what": what, "why": why} for what, why in out]


def rows(bench: Bench, unit: Unit, advance: Advance) -> list[dict[str, Any]]:
    """Rows of one unit: one per item, block and probe."""
    policies = POLICIES[bench.config.preset]["loss"]
    protocol = bench.engine(unit, policies).protocol
    out: list[dict[str, Any]] = []
    probes: dict[tuple[str, str], list[int]] = {}
    for asked in unit.in_order:
        probes.setdefault((asked.condition.policy_id, asked.condition.positions), []).append(asked.condition.seed)
    for (policy_id, positions), seeds in probes.items():
        for batch in bench.batches(unit):

            def run(
                part: Batch, _: int, policy_id: str = policy_id, positions: str = positions, seeds: list[int] = seeds
            ) -> dict[int, Curvature]:
                of, lm = policies[policy_id], bench.prepared.lm
                return curvatures(lm, protocol, part, policy=of, positions=positions, probes=seeds)

            for part, found in fitting(batch, bench.batch_tokens, run):
                base = bench.base(unit) | {"policy_id": policy_id, "positions": positions}
                out += _probe_rows(part, found, seeds, base)
                advance(int(part.mask.sum()) * (1 + len(seeds)))
    return out


def _probe_rows(
    batch: Batch, found: dict[int, Curvature], seeds: list[int], base: dict[str, Any]
) -> list[dict[str, Any]]:
    return [
        {
            **base,
            **item_columns(encoded),
            "block": layer,
            "layers": str(layer),
            "seed": seed,
            "nll": float(one.nll[where.start]),
            "eligible": int(one.tokens[where.start]),
            "radial": float(one.radial[k][where.start]),
            "tangential": float(one.tangential[k][where.start]),
            "gradient": float(one.gradient[where.start]),
        }
        for encoded, where in with_rows(batch)  # a text is one sequence
        for layer, one in found.items()
        for k, seed in enumerate(seeds)
    ]
