"""Repair: perturbed passes in which clean activations are held at some layers while the perturbation stays on.

Which sites a repair holds is data. In a pre-norm block attention and MLP read only their norm's output, so `norm` is
`attention+mlp`; what isolates a path are `attention-pattern` (clean weights over perturbed values),
`attention-values` (perturbed weights over clean values) and `norm-scale` (only the norm's statistic is clean).
Source of `attention` and `norm`: arXiv 2602.11169.
"""

import difflib
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass

from polarlens.engine.activations import (
    FINAL_SCALE,
    HEADS,
    PRE_ATTENTION_SCALE,
    PRE_MLP_SCALE,
    SCALES,
    VALUES,
    Activations,
    Place,
    recording,
    recording_heads,
)
from polarlens.engine.batching import Batch
from polarlens.engine.checkpoints import Checkpoint, checkpoints
from polarlens.engine.conditions import Condition
from polarlens.engine.engine import Engine
from polarlens.engine.injection import injecting
from polarlens.engine.outcome import Clean, Outcome
from polarlens.errors import UsageError
from polarlens.models.anatomy import Anatomy
from polarlens.models.attention import attention_by
from polarlens.models.sites import ATTENTION, MLP, PATTERN, PRE_ATTENTION_NORM, PRE_MLP_NORM, refuse

REPAIRS: Mapping[str, tuple[str, ...]] = {
    "attention": (ATTENTION,),
    "mlp": (MLP,),
    "attention+mlp": (ATTENTION, MLP),
    "norm": (PRE_ATTENTION_NORM, PRE_MLP_NORM),
    "attention-pattern": (PATTERN,),
    "attention-values": (VALUES,),
    "attention-pattern+attention-values": (PATTERN, VALUES),
    "norm-scale": (PRE_ATTENTION_SCALE, PRE_MLP_SCALE),
    "final-norm-scale": (FINAL_SCALE,),
}


@dataclass(frozen=True)
class Repair:
    """A repair of one model: its name, its layers (none for the final norm), and every place that is held."""

    name: str
    layers: tuple[int, ...]
    places: tuple[Place, ...]


def default_layers(perturbed: Many[int], n_layers: int) -> tuple[int, ...]:
    """The perturbed layers above the first one; if there are none, all blocks above."""
    return tuple(perturbed[1:]) or tuple(range(perturbed[0] + 1, n_layers))


def planned(name: str, layers: Many[int], anatomy: Anatomy, perturbed: Many[int]) -> Repair:
    """The repair called `name` at `layers` of a model that is perturbed at `perturbed`, both ascending.

    At the first perturbed layer nothing is held: its attention and MLP come before the perturbation. `layers` mean
    nothing to `final-norm-scale`.

    Raises UsageError for an unknown name, and for layers at which nothing can differ from the clean run; SiteError
    where the model lacks a site, or where it could not be verified.
    """
    if name not in REPAIRS:
        near = difflib.get_close_matches(name, REPAIRS, n=1, cutoff=0)[0]
        raise UsageError(f"{name!r} is not a repair", where="repair", fix=f"The nearest known one is {near}.")
    sites = [site for site in REPAIRS[name] if not _is_another(site, anatomy)]
    for site in sites:
        _require(site, anatomy)
    if sites == [FINAL_SCALE]:
        return Repair(name, (), (Place(None, FINAL_SCALE),))
    _check_layers(layers, perturbed[0], len(anatomy.blocks))
    held = tuple(Place(layer, site) for layer in layers if layer > perturbed[0] for site in sites)
    return Repair(name, tuple(layers), held)


def _is_another(site: str, anatomy: Anatomy) -> bool:
    """Whether it is the norm before the MLP of parallel blocks with one norm: the norm before the attention."""
    one_norm = anatomy.wiring == "parallel" and all(block.pre_mlp_norm is None for block in anatomy.blocks)
    return one_norm and SCALES.get(site, site) == PRE_MLP_NORM


def _require(site: str, anatomy: Anatomy) -> None:
    anatomy.require(PATTERN if site == VALUES else SCALES.get(site, site))
    if site in SCALES and anatomy.norm_kind == "unknown":
        raise refuse(site, "the norms are neither layer norms nor RMS norms, or not all of one kind", anatomy.model)


def _check_layers(layers: Many[int], first: int, n_layers: int) -> None:
    below = [layer for layer in layers if layer < first]
    if below:
        what = f"nothing can differ from the clean run in block {below[0]}, below the first perturbed block {first}"
    elif any(layer >= n_layers for layer in layers):
        what = f"block {max(layers)} is not in this model, whose {n_layers} blocks are 0 to {n_layers - 1}"
    elif not any(layer > first for layer in layers):
        what = f"nothing can differ from the clean run before the output of the first perturbed block {first}"
    else:
        return
    last = n_layers - 1
    fix = f"Choose blocks of {first + 1} to {last}." if first < last else "Perturb a block that has others above it."
    raise UsageError(what, where="repair layers", fix=fix)


def clean_activations(engine: Engine, batch: Batch, repairs: Many[Repair]) -> tuple[Clean, Activations]:
    """The clean pass over a batch and what the repairs need of it.

    Memory: for each place one state (of a scale one number) per token, whatever the number of conditions.
    """
    kept, anatomy = Activations(), engine.lm.anatomy
    places = dict.fromkeys(place for repair in repairs for place in repair.places)
    clean = engine.clean(batch, recording(anatomy, places, kept))
    layers = {place.layer for place in places if place.layer is not None and place.site in HEADS}
    if layers:  # with the attention function that the repaired passes use too
        function = recording_heads(anatomy, layers, kept)
        engine.unperturbed(batch, clean, attention_by(engine.lm.hf, function))
    return clean, kept


def repaired(
    engine: Engine,
    batch: Batch,
    clean: Clean,
    kept: Activations,
    conditions: Many[Condition],
    repairs: Many[Repair],
    tokens: int,
) -> Iterator[tuple[Condition, Repair | None, Outcome]]:
    """Outcomes of every condition without a repair (None) and under each, all with the same draws.

    At most `tokens` padded tokens are run at once. A repaired pass starts where it leaves the one without a repair;
    memory: one state per token of a stack for each such block.
    """
    lm, first = engine.lm, engine.protocol.layers[0]
    starts = {repair: _last_unchanged(repair, lm.n_layers) for repair in repairs}
    for stack in engine.stacks(batch, clean, conditions, tokens):
        reached: dict[int, Checkpoint] = {}
        keep = checkpoints(lm.blocks, {n for n in starts.values() if n > first}, stack, reached)
        passes = [(None, keep, None), *((r, injecting(lm, r.places, kept), n) for r, n in starts.items())]
        for repair, hooks, start in passes:
            outcomes = engine.run(batch, clean, stack, hooks, None if start is None else reached.get(start))
            for condition, outcome in zip(stack.conditions, outcomes, strict=True):
                yield condition, repair, outcome


def _last_unchanged(repair: Repair, n_layers: int) -> int:
    """The last block whose output is that of the pass without the repair."""
    return min((n_layers if place.layer is None else place.layer for place in repair.places), default=n_layers) - 1
