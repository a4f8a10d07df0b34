"""The manifest: everything needed to know what a run measured, on what, and to run it again."""

import dataclasses
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from polarlens.protocol.config import BUILT_EXPERIMENTS
from polarlens.protocol.environment import hardware, versions
from polarlens.protocol.prepared import Prepared, digest
from polarlens.protocol.presets import policies_as_data
from polarlens.protocol.profile import state_profile
from polarlens.protocol.site import site_medians
from polarlens.protocol.summarise import unigram_nll


def build_manifest(prepared: Prepared, settings: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
    """The manifest as it stands before the units are done; `old` is that of the run which is extended."""
    config, lm = prepared.config, prepared.lm
    now = datetime.now(UTC).isoformat(timespec="seconds")
    earlier = old or {"started": now, "wall_seconds": 0.0, "peak_memory_bytes": 0}
    profiled = prepared.tasks[0]
    medians = earlier.get("site_medians") or {}
    if config.delta_mode == "site" and not medians:
        layers = {layer for group in prepared.groups for layer in group}
        medians = {
            task.task: {
                str(layer): median
                for layer, median in site_medians(
                    lm, task.encoding.items, layers, has_bos=task.has_bos, batch_tokens=prepared.batch_tokens
                ).items()
            }
            for task in prepared.tasks
        }
    return {
        "schema": 1,
        "model": {
            "name": lm.name, "family": lm.hf.config.model_type, "norm_kind": lm.norm_kind, "n_params": lm.n_params,
            "n_layers": lm.n_layers, "width": lm.width, "window": lm.window, "dtype": config.dtype,
            "weights_sha256": lm.weights_digest, "source": dataclasses.asdict(lm.source),
        },
        "tokenizer": {
            "sha256": lm.tokenizer_digest, "size": len(lm.tokenizer), "bos": dataclasses.asdict(prepared.bos),
        },
        "command": shlex.join(["polarlens", *sys.argv[1:]]) if Path(sys.argv[0]).stem == "polarlens" else None,
        "configuration": config.model_dump(mode="json"),
        "settings": settings,
        "policies": policies_as_data(config.preset),
        "seeds": list(range(config.seeds)),
        "deltas": {task: list(deltas) for task, deltas in prepared.deltas.items()},
        "site_medians": medians,
        "data": {
            task.task: {
                "sources": list(task.sources), "items": len(task.encoding.items),
                "skipped": dict(task.encoding.skipped), "share_cut": task.encoding.share_cut,
                "items_sha256": digest(sorted(task.by_key)),
            }
            for task in prepared.tasks
        },
        "unigram_nll": unigram_nll(prepared.tasks, len(lm.tokenizer)),
        "state_profile": {
            "task": profiled.task,
            "blocks": state_profile(
                lm, profiled.encoding.items, has_bos=profiled.has_bos, batch_tokens=prepared.batch_tokens
            ),
        },
        "skipped": _skipped(prepared),
        "versions": versions(),
        "hardware": hardware(lm.device),
        "started": earlier["started"],
        "updated": now,
        "wall_seconds": earlier["wall_seconds"],
        "peak_memory_bytes": earlier["peak_memory_bytes"],
        "failed_units": {},
    }  # fmt: skip


def _skipped(prepared: Prepared) -> list[dict[str, str]]:
    """What the defaults would have run and this run does not."""
    skipped = [
        {"experiment": name, "what": name, "why": "not in this version"}
        for name in prepared.config.experiments or ()
        if name not in BUILT_EXPERIMENTS
    ]
    present = {task.task for task in prepared.tasks}
    for task, option in (("loss", "--text"), ("pairs", "--pairs")):
        if task not in present:
            skipped.append({"experiment": "sweep", "what": f"task {task}", "why": f"{option} was not given"})
    return skipped
