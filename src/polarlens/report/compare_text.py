"""A comparison of runs as plain text for a terminal."""

from pathlib import Path

from polarlens.report.compare_shown import (
    Block,
    Document,
    answers,
    by_norm,
    compared,
    size,
    status,
    tested,
)
from polarlens.report.shown import headline_noise
from polarlens.report.tables import DIFFERENCES, baseline_lines, claim_texts
from polarlens.report.terminal import claim_lines, clean, paragraph

UNUSABLE = "not usable: in one of the models both arms are at the floor of the task"
MARKS = {"replicates": "+", "contradicts": "x", "inconclusive": "?", "not_run": "."}


def render_compare(document: Document, folder: Path | None = None) -> str:
    """Models by norm kind with their verdicts, what differs, C8 and C9, warnings, files; wrapped at 100 characters."""
    parts = ["\n".join(_models(document))]
    parts.append(
        "\n".join(
            paragraph(f"{run['model']}: clean {'; '.join(baseline_lines(run))}", "  ") for run in document["runs"]
        )
    )
    parts.append("\n".join(["WHAT DIFFERS", *(paragraph(f"- {one}", "  ") for one in answers(document))]))
    parts += _tables(document)
    parts.append("\n".join(["CLAIMS", *claim_lines(claim_texts(document))]))
    if document["warnings"]:
        parts.append("\n".join(["WARNINGS", *(paragraph(f"- {one}", "  ") for one in document["warnings"])]))
    if folder is not None:
        parts.append(paragraph(f"FILES in {folder}: compare.html, compare.json, figures"))
    return "\n\n".join(parts)


def _models(document: Document) -> list[str]:
    """A line per model: norm, size, blocks, verdict and the status of the claims that were tested."""
    ids = tested(document)
    lines = [("model", "norm", "size", "layers", "verdict", *ids)]
    for norm, runs in by_norm(document).items():
        for run in runs:
            verdict = run["verdict"]["kind"].replace("_", " ")
            marks = [MARKS[status(run, id_)] for id_ in ids]
            lines.append((run["model"], norm, size(run), run["layers"], verdict, *marks))
    legend = ", ".join(f"{mark} {name.replace('_', ' ')}" for name, mark in MARKS.items())
    return [*aligned(lines), *([f"  claims: {legend}"] if ids else [])]


def _tables(document: Document) -> list[str]:
    """One per pair of models and task; pairs under one noise, the others stand on the page."""
    found = compared(document)
    noise = headline_noise([block.noise for block in found if block.task == "pairs"])
    return [_table(block) for block in found if block.task == "loss" or block.noise == noise]


def _table(block: Block) -> str:
    a, b, difference = block.model_a, block.model_b, DIFFERENCES[block.task]
    heads, columns = [difference, "p (Holm)"], ["difference"]
    if block.task == "loss":
        heads, columns = ["ratio of ratios", "p (Holm)", difference, "p (Holm)"], ["ratio", "difference"]
        title = f"Loss: angular / magnitude of {a} over that of {b}, and {difference} of {a} less that of {b}"
    else:
        title = f"Accuracy drop: {difference} of {a} less that of {b}, {block.noise} noise"
    rows = [
        (
            *(("block " + line.layers,) if block.varied else ()),
            f"{line.delta:g}" + ("" if line.usable else " *"),
            *(text for kind in columns for text in (line.text(kind, None, block.unit), line.p_holm(kind))),
        )
        for line in block.lines
    ]
    head = (*(("blocks",) if block.varied else ()), "delta", *heads)
    note = [paragraph(f"  * {UNUSABLE}", "    ")] if block.unusable else []
    return "\n".join([paragraph(f"{title} ({block.unit}; {block.how})"), *aligned([head, *rows]), *note])


def aligned(lines: list[tuple[str, ...]]) -> list[str]:
    """Columns under each other, indented by two."""
    lines = [tuple(map(clean, line)) for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return ["  " + "   ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
