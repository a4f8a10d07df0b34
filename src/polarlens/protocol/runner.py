"""From a configuration to a finished folder: plan, work through the units, summarise, report."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarlens.errors import PolarlensError, UsageError
from polarlens.protocol import executors
from polarlens.protocol.adaptive import Rounds, in_rounds
from polarlens.protocol.config import RunConfig, resolved
from polarlens.protocol.environment import peak_memory_bytes
from polarlens.protocol.estimate import Estimate, estimate, passes, work_tokens
from polarlens.protocol.executors.work import Executor
from polarlens.protocol.experiments import EXPERIMENTS, all_wanted, done_in, missing_units
from polarlens.protocol.folder import check_items, check_settings, discard, locked, read_manifest
from polarlens.protocol.manifest import build_manifest
from polarlens.protocol.plan import Unit, Wanted
from polarlens.protocol.prepared import Prepared, prepare, settings_of
from polarlens.protocol.progress import say, tracked
from polarlens.protocol.result import Run
from polarlens.protocol.summarise import rebuild
from polarlens.protocol.tasks import Read, read_data
from polarlens.rows.store import damaged_parts, write_json, write_part

if TYPE_CHECKING:
    from polarlens.models import LanguageModel


def execute(config: RunConfig, *, model: "LanguageModel | None" = None, read: Read | None = None) -> Run | Estimate:
    """Run the protocol and write the run's folder; with `dry_run` only the plan is returned.

    model: an already loaded model, used in place of `config.models`. read: the configuration's data, if it was read.

    Raises UsageError and ModelError before anything is written. Units that fail are listed in the result, the rest is
    done. A repeated call does only what is missing.
    """
    config = resolved(config)
    read = read or read_data(config)
    with executors.connected(config, loaded=model is not None):
        return _execute(config, model, read)


def _execute(config: RunConfig, model: "LanguageModel | None", read: Read) -> Run | Estimate:
    if model is None:
        from polarlens.models import load

        if not config.models:
            raise UsageError(
                "no model is named, and this version bundles none", fix="Name a Hub id, a directory or a GGUF file."
            )
        say(f"loading {config.models[0]}", quiet=config.quiet)
        model = load(
            config.models[0], device=config.device, dtype=config.dtype,
            trust_pickle=config.trust_pickle, trust_remote_code=config.trust_remote_code,
        )  # fmt: skip
    prepared = prepare(config, model, read)
    assert config.out is not None
    settings = settings_of(prepared)
    earlier = _earlier(prepared, settings)
    if config.dry_run:
        return _planned(prepared, _next(prepared, config.out, earlier))
    with locked(config.out):
        if config.overwrite:
            discard(config.out)
        # Read again: another process may have worked here before the folder was ours.
        return _work(prepared, settings, _earlier(prepared, settings))


def _earlier(prepared: Prepared, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The manifest of the run to extend, None for a new one.

    Raises UsageError when settings or items differ, and when something that was asked for by name cannot be had.
    """
    folder, every = prepared.config.out, all_wanted(prepared)  # which refuses what cannot be had
    assert folder is not None
    manifest = read_manifest(folder)
    if manifest is None or prepared.config.overwrite:
        return None
    check_settings(folder, manifest["settings"], settings)
    held = _wanted_in(manifest)
    for wanted in every:
        before = [one for one in held if one.about == wanted.about]
        check_items(folder, before, wanted, fewer=prepared.config.ci_width is None)
    return manifest


def _wanted_in(manifest: Mapping[str, Any] | None) -> list[Wanted]:
    return [Wanted.from_document(one) for one in manifest["wanted"].values()] if manifest else []


@dataclass(frozen=True)
class Stage:
    """What is wanted as far as it is known, the units of it that are not done, and the rounds that texts come in."""

    wanted: list[Wanted]
    units: list[Unit]
    rounds: Rounds | None


def _next(prepared: Prepared, folder: Path, manifest: Mapping[str, Any] | None) -> Stage:
    """What is to be done now in the folder of this manifest (None: a new run)."""
    done = done_in(folder) if manifest else {}
    wanted, rounds = in_rounds(prepared, all_wanted(prepared), _wanted_in(manifest), folder, done)
    return Stage(wanted, missing_units(wanted, done), rounds)


def _planned(prepared: Prepared, stage: Stage) -> Estimate:
    items = {task.task: task.by_key for task in prepared.data}
    plan = estimate(stage.units, items, prepared.lm, batch_tokens=prepared.batch_tokens)
    if stage.rounds and stage.units:
        say(stage.rounds.note, quiet=prepared.config.quiet)
    say(str(plan), quiet=prepared.config.quiet)
    return plan


def _set_damaged_aside(folder: Path, *, quiet: bool) -> None:
    for name in EXPERIMENTS:
        for path in damaged_parts(folder, name):
            path.rename(path.with_suffix(".damaged"))
            say(f"{path}: damaged, set aside and redone", quiet=quiet)


def _work(prepared: Prepared, settings: dict[str, Any], old: dict[str, Any] | None) -> Run:
    config, folder = prepared.config, prepared.config.out
    assert folder is not None
    started = time.monotonic()
    _set_damaged_aside(folder, quiet=config.quiet)
    stage = _next(prepared, folder, old)
    _planned(prepared, stage)
    manifest = _begun(prepared, settings, old, stage)
    medians = {
        task: {int(layer): median for layer, median in found.items()}
        for task, found in manifest["site_medians"].items()
    }
    failed: dict[str, str] = {}
    peak = 0
    with executors.opened(prepared, medians, settings) as executor:
        while True:
            failed_now, used = _run_units(prepared, stage.units, settings, executor)
            failed, peak = failed | failed_now, max(peak, used)
            if stage.rounds is None:
                break
            stage = _next(prepared, folder, manifest)  # the rows that are there now say whether more texts are needed
            stage = replace(stage, units=[unit for unit in stage.units if unit.key(settings) not in failed])
            manifest = _begun(prepared, settings, manifest, stage)
            if not stage.units:
                break
            _planned(prepared, stage)
        if executor.workers:
            manifest["hardware"]["workers"] = [*executor.workers]
    manifest["wall_seconds"] = round(manifest["wall_seconds"] + time.monotonic() - started, 3)
    manifest["peak_memory_bytes"] = max(manifest["peak_memory_bytes"], peak, peak_memory_bytes())
    manifest["failed_units"] = failed
    write_json(folder / "manifest.json", manifest)
    summary = rebuild(folder)
    return Run(folder, summary, manifest, tuple(failed.values()))


def _begun(prepared: Prepared, settings: dict[str, Any], old: dict[str, Any] | None, stage: Stage) -> dict[str, Any]:
    """Write the manifest of a stage, before any of its units is done."""
    folder = prepared.config.out
    assert folder is not None
    adaptive = stage.rounds.document if stage.rounds else None
    manifest = build_manifest(prepared, settings, old, stage.wanted, stage.units, adaptive)
    write_json(folder / "manifest.json", manifest)
    _mark_unfinished(folder, len(stage.units))
    return manifest


def _mark_unfinished(folder: Path, units: int) -> None:
    """Let the summary of an earlier call say that work is under way, in case this one is interrupted."""
    path = folder / "summary.json"
    if units and path.exists():
        summary = json.loads(path.read_text("utf-8"))
        write_json(path, summary | {"complete": False, "missing_units": units})


def _run_units(
    prepared: Prepared, units: list[Unit], settings: Mapping[str, Any], executor: Executor
) -> tuple[dict[str, str], int]:
    """Do every unit: those that failed, by key, which do not stop the others; and the workers' peak memory in bytes."""
    config, folder = prepared.config, prepared.config.out
    assert folder is not None
    items = {task.task: task.by_key for task in prepared.data}
    failed: dict[str, str] = {}
    peak = 0
    what = ", ".join(dict.fromkeys(unit.experiment for unit in units))
    # A unit tells the tokens of its passes; what a token costs differs between experiments.
    costs = {unit: passes(unit, prepared.lm.n_layers) / unit.passes for unit in units}
    total = sum(cost * work_tokens(unit, items[unit.task]) for unit, cost in costs.items())
    with tracked(total, what, quiet=config.quiet) as advance:

        def told(unit: Unit, tokens: float, note: str = "") -> None:
            advance(tokens * costs[unit], note)

        for unit, outcome in executor(units, told):
            key, error = unit.key(settings), outcome.error
            peak = max(peak, outcome.peak_memory_bytes)
            if outcome.rows is not None:
                try:
                    write_part(folder, unit.experiment, key, outcome.rows, unit.document)
                except (PolarlensError, RuntimeError, OSError) as problem:
                    error = str(problem)
            if error:
                failed[key] = (
                    f"{unit.experiment}, {unit.task}, {len(unit.items)} items from {unit.items[0][1]}: {error}"
                )
                say(f"unit {key} failed: {error}", quiet=config.quiet)
    return failed, peak
