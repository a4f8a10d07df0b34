"""Rows and manifest on disk -> `summary.json` and the report; needs no model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polarlens.errors import UsageError
from polarlens.protocol.audit import coincidences, design_of
from polarlens.protocol.experiments import EXPERIMENTS, done_in, missing_units
from polarlens.protocol.folder import read_manifest
from polarlens.protocol.plan import Wanted
from polarlens.protocol.profile import TOKENS
from polarlens.protocol.tasks import TaskData
from polarlens.rows.store import read_rows, write_json
from polarlens.statistics import summarise, unigram_cross_entropy


def unigram_nll(tasks: Sequence[TaskData], vocabulary: int) -> float | None:
    """Unigram cross-entropy of the scored tokens of the texts, nats per token; None without texts."""
    for task in tasks:
        if task.task == "loss":
            scored = [encoded.sequences[0][1:] for encoded in task.encoding.items]
            return unigram_cross_entropy(scored, max(vocabulary, 1 + max(map(max, scored))))
    return None


def rebuild(folder: Path) -> dict[str, Any]:
    """Summarise all rows of a run's folder, write `summary.json` and the report, and return the summary.

    Raises UsageError when the folder holds no run.
    """
    from polarlens.report import write_report

    manifest = read_manifest(folder)
    if manifest is None:
        raise UsageError(
            "this folder holds no run", where=str(folder), fix="Give the folder that `polarlens run --out` wrote."
        )
    rows = {name: read_rows(folder, name) for name in EXPERIMENTS}
    wanted = list(map(Wanted.from_document, manifest["wanted"].values()))
    missing = len(missing_units(wanted, done_in(folder)))
    adaptive = manifest.get("adaptive")
    if adaptive and not adaptive["done"]:
        missing = max(1, missing)  # the rounds to come are not planned yet
    design = design_of(wanted, manifest["settings"]["delta_mode"])
    summary = summarise(
        rows.pop("sweep"),
        others=rows,
        design=design,
        n_layers=manifest["model"]["n_layers"],
        model=manifest["model"]["name"],
        preset=manifest["configuration"]["preset"],
        policies=manifest["policies"],
        unigram_nll=manifest["unigram_nll"],
        skipped=[*manifest["skipped"], *(coincidences(design) if design else ())],
        warnings=_warnings(manifest, complete=not missing),
        missing_units=missing,
        complete=not missing,
    )
    if adaptive:
        summary["adaptive"] = adaptive
    write_json(folder / "summary.json", summary)
    write_report(folder, summary, manifest)
    return dict(summary)


def _warnings(manifest: dict[str, Any], *, complete: bool) -> list[str]:
    found = []
    for task, data in manifest["data"].items():
        if data["share_cut"]:
            longest = manifest["settings"]["max_tokens"]
            found.append(f"{task}: {100 * data['share_cut']:.1f} % of the items were cut to {longest} tokens")
        found += [f"{task}: {n} items skipped ({why})" for why, n in data["skipped"].items()]
    if quantisation := manifest["model"]["source"].get("quantisation"):
        found.append(f"the weights are dequantised from {quantisation}")
    found += manifest["model"].get("notes", ())
    references = manifest.get("references")
    if references and references["tokens"] < TOKENS:
        found.append(f"the planes covariance and data draw from {references['tokens']} clean states, not {TOKENS:,}")
    if complete and (adaptive := manifest.get("adaptive")):
        found += [
            f"the loss ratio at delta {one['delta']:g} is less precise than asked: {one['why']}"
            for one in adaptive["deltas"]
            if not one["reached"]
        ]
    found += [f"a unit failed: {message}" for message in manifest["failed_units"].values()]
    return found
