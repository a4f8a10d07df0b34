"""The manifest: everything needed to know what a run measured, on what, and to run it again."""

import dataclasses
import shlex
import sys
from collections.abc import Collection, Mapping
from collections.abc import Sequence as Many
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from polarlens.errors import UsageError
from polarlens.probing import AlignedTrees
from polarlens.protocol.adaptive import ABOUT
from polarlens.protocol.audit import design_of, refers
from polarlens.protocol.environment import hardware, versions
from polarlens.protocol.experiments import all_skipped
from polarlens.protocol.plan import Unit, Wanted
from polarlens.protocol.prepared import Prepared, digest
from polarlens.protocol.presets import policies_as_data
from polarlens.protocol.profile import first_tokens, state_profile
from polarlens.protocol.site import site_medians
from polarlens.protocol.summarise import unigram_nll
from polarlens.protocol.tasks import TaskData


def build_manifest(
    prepared: Prepared,
    settings: dict[str, Any],
    old: dict[str, Any] | None,
    asked: Many[Wanted],
    units: Many[Unit],
    adaptive: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The manifest as it stands before the units are done.

    old: that of the run which is extended. asked: what is wanted now, and adaptive: in which rounds.

    Raises UsageError when units would draw from other reference states than those of the rows that are there, and when
    a treebank labels its words otherwise than it did.

    What is said about a task of the earlier run that is not asked for now, or of which only some items are, stays: the
    manifest describes all rows of the folder.
    """
    config, lm = prepared.config, prepared.lm
    now = datetime.now(UTC).isoformat(timespec="seconds")
    earlier = old or {"started": now, "wall_seconds": 0.0, "peak_memory_bytes": 0}
    wanted = {key: Wanted.from_document(document) for key, document in earlier.get("wanted", {}).items()}
    items = {
        task.task: {key for one in wanted.values() if one.task == task.task for key in one.items}
        for task in prepared.data
    }
    new = [task for task in prepared.data if len(task.by_key) >= len(items[task.task])]
    for one in asked:
        wanted[one.key] = one.with_earlier(wanted.get(one.key))
    if any(one.about == ABOUT for one in asked):
        earlier = earlier | {"adaptive": adaptive}
    data = earlier.get("data", {}) | {task.task: _data(task) for task in new}
    _check_labels(prepared, earlier, data)
    unigram = unigram_nll(new, len(lm.tokenizer))
    return {
        "schema": 1,
        "model": {
            "name": lm.name, "family": lm.hf.config.model_type, "norm_kind": lm.norm_kind, "n_params": lm.n_params,
            "n_layers": lm.n_layers, "width": lm.width, "window": lm.window, "dtype": settings["dtype"],
            "weights_sha256": lm.weights_digest, "config_sha256": lm.config_digest,
            "source": dataclasses.asdict(lm.source), "notes": list(lm.notes),
        },
        "tokenizer": {
            "sha256": lm.tokenizer_digest, "size": len(lm.tokenizer), "bos": dataclasses.asdict(prepared.bos),
        },
        "command": shlex.join(["polarlens", *sys.argv[1:]]) if Path(sys.argv[0]).stem == "polarlens" else None,
        "configuration": config.model_dump(mode="json"),
        "settings": settings,
        "policies": policies_as_data(config.preset) | _audit_policies(wanted.values(), settings["delta_mode"]),
        "seeds": sorted({asked.condition.seed for one in wanted.values() for asked in one.asked}),
        "deltas": {key: sorted({a.condition.delta for a in one.asked} - {0.0}) for key, one in wanted.items()},
        "site_medians": earlier.get("site_medians") or _site_medians(prepared),
        "references": _references(prepared, units, earlier.get("references")),
        "data": data,
        "wanted": {key: one.document for key, one in wanted.items()},
        "adaptive": earlier.get("adaptive"),
        "unigram_nll": earlier.get("unigram_nll") if unigram is None else unigram,
        "state_profile": earlier.get("state_profile") or _profile(prepared),
        "skipped": _skipped(prepared, wanted.values(), earlier.get("skipped", ())),
        "versions": versions(),
        "hardware": hardware(lm.device),
        "started": earlier["started"],
        "updated": now,
        "wall_seconds": earlier["wall_seconds"],
        "peak_memory_bytes": earlier["peak_memory_bytes"],
        "failed_units": {},
    }  # fmt: skip


def _data(task: TaskData) -> dict[str, Any]:
    encoding = task.encoding
    return {
        "sources": list(task.sources),
        "items": len(encoding.items),
        "skipped": dict(encoding.skipped),
        "share_cut": encoding.share_cut,
        "items_sha256": digest(sorted(task.by_key)),
        **({} if task.aligned is None else _words(task.aligned)),
    }


def _words(trees: AlignedTrees) -> dict[str, Any]:
    """What became of the words, and what they are labelled with."""
    counts = {name: getattr(trees, name) for name in ("words", "unaligned", "shared")}
    labels = [
        [one.tree.item, [(word.form, word.upos, word.head, word.span) for word in one.tree.words]]
        for one in trees.items
    ]
    return {**counts, "labels_sha256": digest(labels)}


def _check_labels(prepared: Prepared, earlier: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    before, now = (one.get("trees", {}).get("labels_sha256") for one in (earlier.get("data", {}), data))
    if before not in (None, now):
        raise UsageError(
            "the folder holds probes of the same sentences with other parts of speech or heads",
            where=str(prepared.config.out),
            fix="Give the same treebank; or choose another folder with --out, or --overwrite.",
        )


def _site_medians(prepared: Prepared) -> dict[str, dict[str, float]]:
    """Task -> layer -> median norm, only in the mode that needs it. Layers are text, as JSON has it."""
    if prepared.config.delta_mode != "site":
        return {}
    layers = {layer for group in prepared.groups for layer in group}
    found = {
        task.task: site_medians(
            prepared.lm, task.encoding.items, layers, has_bos=task.has_bos, batch_tokens=prepared.batch_tokens
        )
        for task in prepared.data
    }
    return {task: {str(layer): median for layer, median in medians.items()} for task, medians in found.items()}


def _profile(prepared: Prepared) -> dict[str, Any]:
    task = prepared.data[0]
    blocks = state_profile(prepared.lm, task.encoding.items, has_bos=task.has_bos, batch_tokens=prepared.batch_tokens)
    return {"task": task.task, "blocks": blocks}


def _audit_policies(wanted: Collection[Wanted], delta_mode: str) -> dict[str, Any]:
    """Policy id -> levels of every policy that the audit names."""
    design = design_of(wanted, delta_mode)
    return {} if design is None else {one.id: one.policy.as_dict() for one in design.policies}


def _references(prepared: Prepared, units: Many[Unit], kept: dict[str, Any] | None) -> dict[str, Any] | None:
    """Which clean states the planes `covariance` and `data` draw from; None where nothing was drawn from any."""
    if not any(map(refers, units)):
        return kept
    task = prepared.data[0]
    items = first_tokens(task.encoding.items, has_bos=task.has_bos)
    which = digest(sorted((one.item.dataset, one.item.item) for one in items))
    if kept is None:
        states = {str(layer): found.digest for layer, found in sorted(prepared.references.items())}
        tokens = {len(found.bank) for found in prepared.references.values()}
        return {"task": task.task, "tokens": max(tokens), "items_sha256": which, "states_sha256": states}
    if kept["items_sha256"] != which:
        raise UsageError(
            f"the planes covariance and data drew from states of other items of the task {kept['task']}",
            where=str(prepared.config.out),
            fix="Give the same data; or choose another folder with --out, or --overwrite to discard what is there.",
        )
    return kept


def _skipped(
    prepared: Prepared, wanted: Collection[Wanted], earlier: Collection[dict[str, str]]
) -> list[dict[str, str]]:
    """What was asked of the folder, by this call or an earlier one, and is not in it."""
    now = all_skipped(prepared)
    held, tasks = {one.experiment for one in wanted}, {one.task for one in wanted}
    entries = {(one["experiment"], one["what"]): one for one in [*earlier, *now]}
    found = [
        entry for (name, what), entry in entries.items() if name != "sweep" and not (name == what and name in held)
    ]
    for task, option in (("loss", "--text"), ("pairs", "--pairs")):
        if task not in tasks and held - {"probing"}:
            found.append({"experiment": "sweep", "what": f"task {task}", "why": f"{option} was not given"})
    return found
