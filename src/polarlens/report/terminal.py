"""The summary as plain text for a terminal."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from polarlens.perturbation.policy import ARMS
from polarlens.report.grid import in_points, p_value
from polarlens.report.numbers import MINUS, NONE, estimate, number
from polarlens.report.probes import POOLING, find, middle, probed_blocks, scores, unit
from polarlens.report.sentence import sentence
from polarlens.report.series import Cell, all_series, headline, layer_sets, repair_sites
from polarlens.report.shown import Summary, blocks, damages, displacement, model_title, positions_run, reference
from polarlens.report.tables import ClaimText, Group, baseline_lines, claim_texts, groups, not_run

WIDTH = 100
_PLAIN = str.maketrans({MINUS: "-", NONE: "-"})


def render_text(summary: Summary, folder: Path | None = None) -> str:
    """Model, baseline, damages, recoveries, probes, verdict, audit, claims, warnings, files; wrapped at 100 characters.

    Tables are those of the headline's positions. Where blocks were perturbed one by one, they show one delta.
    """
    verdict = summary["verdict"]
    parts = [paragraph(f"{model_title(summary['model'])}, preset {summary['preset']}")]
    if not summary["complete"]:
        parts.append(paragraph(f"INCOMPLETE: {summary['missing_units']} units of work are missing"))
    parts.append("\n".join(paragraph(f"clean {line}") for line in baseline_lines(summary)))
    parts += _tables(summary)
    for lines in (precision_lines(summary), recovery_lines(summary), probe_lines(summary)):
        if lines:
            parts.append("\n".join(lines))
    parts.append(paragraph(f"VERDICT {verdict['kind']}: {sentence(summary)}"))
    if summary.get("audit_text"):
        parts.append(paragraph(f"AUDIT of the noise policy: {summary['audit_text']}"))
    parts.append("\n".join(["CLAIMS", *claim_lines(claim_texts(summary))]))
    skipped = [f"{one['what']}: {one['why']}" for one in summary["skipped"]]
    for title, lines in (("SKIPPED", skipped), ("WARNINGS", summary["warnings"])):
        if lines:
            parts.append("\n".join([title, *(paragraph(f"- {line}", "  ") for line in lines)]))
    if folder is not None:
        parts.append(paragraph(f"FILES in {folder}: report.html, summary.json, manifest.json, figures, rows"))
    return "\n\n".join(parts)


def _tables(summary: Summary) -> list[str]:
    """One table per task and pair policy, under a line that says what delta is."""
    positions = next(iter(positions_run(summary)), None)
    entries = damages(summary, positions)
    if not entries:
        return []
    several = len(blocks(entries)) > 1
    only = reference(summary, entries) if several else None
    where = f"one block at a time, at delta {only:g}" if several else f"layers {entries[0].condition.layers}"
    note = f"delta: {displacement(summary)}; {where}; positions: {positions}; 95 % intervals in brackets"
    return [paragraph(note), *(_table(group, only) for group in groups(summary, positions))]


def _table(group: Group, only: float | None) -> str:
    """only: the one delta shown, with a line per block; None for a line per delta."""
    what, name = ("ratio", "angular / magnitude") if group.task == "loss" else ("difference", group.difference)
    lines = [("block" if only is not None else "delta", "magnitude", "angular", name)]
    for row in group.rows:
        if only in (None, row.delta):
            first = row.shown_delta if only is None else (row.layers or "") + ("" if row.usable else " *")
            lines.append((first, row.text("magnitude"), row.text("angular"), row.text(what)))
    notes = [paragraph(f"  {note}", "    ") for note in group.notes]
    return "\n".join([paragraph(group.title), *_aligned(lines), *notes])


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        clean("  " + "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        for line in lines
    ]


def precision_lines(summary: Summary) -> list[str]:
    """How precise the loss ratio is at each delta, where a width was asked for; empty otherwise."""
    found = summary.get("adaptive")
    if not found:
        return []
    sizes = ", ".join(map(str, found["rounds"]))
    title = f"Precision of the loss ratio: {100 * found['width']:.1f} % of it asked; rounds of {sizes} texts, "
    table = [("delta", "texts", "half-width", "reached")]
    for one in found["deltas"]:
        half = NONE if one["half_width"] is None else f"{100 * one['half_width']:.1f} %"
        table.append((f"{one['delta']:g}", str(one["n_items"]), half, "yes" if one["reached"] else "no"))
    return [paragraph(f"{title}{found['cap']} at most"), *_aligned(table)]


def recovery_lines(summary: Summary) -> list[str]:
    """What clean activations give back of the loss damage (of accuracy's, without texts), a line per repair and layers.

    Empty without repairs, and where layers were repaired one at a time: that is a figure, not a list.
    """
    found = headline(all_series(summary, "repair", "recovery"), summary)[:1]
    if not found or len(layer_sets(found[0])) > 1:
        return []
    (one,) = found
    table: list[Sequence[str]] = [("repair", *ARMS, "p (Holm)")]
    for name, layers in repair_sites(one):
        site = {"repair": name, "repair_layers": layers}
        arms = [_recovered(one.cell(arm=arm, **site)) for arm in ARMS]
        table.append((name, *arms, p_value(one.contrast(kind="difference", **site))))
    title = f"Recovered share of the damage, %. {one.title}, {one.where}"
    return [paragraph(title), *_aligned(table)]


def _recovered(cell: Cell | None) -> str:
    """Percent, with its interval."""
    if cell is None or cell["mean"] is None:
        return NONE
    return in_points(100 * cell["mean"], cell["ci95"] and [100 * end for end in cell["ci95"]])


def probe_lines(summary: Summary) -> list[str]:
    """Part of speech and parse depth read from direction and norm at the middle probed block; empty without any."""
    block, clean = middle(probed_blocks(summary)), scores(summary)
    lines = []
    for label, target, metric in (
        ("part of speech, points", "upos", "accuracy"),
        ("parse depth, gain in R2", "depth", "gain"),
    ):
        found = {
            name: find(clean, block=block, representation=name, target=target, metric=metric, pooling=POOLING)
            for name in ("direction", "norm")
        }
        majority = find(clean, representation="majority", target=target, metric=metric)
        said = [f"{k} {estimate(one['mean'], one['ci95'], unit(metric))}" for k, one in found.items() if one]
        if said:
            said += [f"majority {number(majority['mean'], unit(metric))}"] if majority else []
            lines.append(paragraph(f"  {label}: {', '.join(said)}", "    "))
    return [paragraph(f"Probes at block {block}, held-out sentences"), *lines] if lines else []


def claim_lines(claims: Sequence[ClaimText]) -> list[str]:
    """The claims with their status and numbers; those that were not tested share the last line."""
    lines = []
    for claim in claims:
        if not claim.status.startswith("not run"):
            numbers = f"      paper {claim.paper}, measured {claim.measured} {claim.interval.strip(NONE)}".rstrip()
            lines.append(paragraph(f"{claim.id}  {claim.status}: {claim.claim}", "      "))
            lines.append(paragraph(f"{numbers}; {claim.why}", "      "))
    untested = not_run(claims)
    return [*lines, *([paragraph(f"not run: {untested}", "      ")] if untested else [])]


def paragraph(text: str, indent: str = "") -> str:
    """Wrapped text, its lines after the first indented."""
    return textwrap.fill(clean(text), WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def clean(text: str) -> str:
    """Without control characters, which a name could carry, and with a minus and a dash of every encoding."""
    return "".join(c if c.isprintable() else "?" for c in text.translate(_PLAIN))
