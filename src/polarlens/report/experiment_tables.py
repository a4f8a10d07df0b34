"""The tables of repair, propagation, curvature and audit: numbers with intervals, a reason where there is none."""

from collections.abc import Mapping
from typing import Any

from polarlens.perturbation.policy import ARMS
from polarlens.report.figures.audit import PANELS, effects
from polarlens.report.grid import Form, Table, in_nats, in_percent, in_points, p_value
from polarlens.report.numbers import NONE, share
from polarlens.report.series import SPLIT, Series, all_series, headline, published, repair_sites
from polarlens.report.shown import Summary
from polarlens.statistics.audit_words import VERDICT

NOT_RUN = "not run"


def repair_tables(summary: Summary) -> list[Table]:
    """Recoveries per task and measure, then the splits."""
    out = []
    for one in all_series(summary, "repair", "recovery"):
        paper = one.task == "loss" and any(published(summary, *p) is not None for p in (("attention", "angular"),))
        head = ["repair", "layers", *ARMS, "difference", "p (Holm)", *(["paper: magnitude, angular"] if paper else [])]
        table = Table(f"Recovered share of the damage. {one.title}, {one.where}", head)
        for name, layers in repair_sites(one):
            said = [NONE if (v := published(summary, name, arm)) is None else share(v) for arm in ARMS]
            row = _row(table, one, name, layers, in_percent)
            table.rows.append([*row, *([", ".join(said) if said != [NONE, NONE] else NONE] if paper else [])])
        out.append(table)
    for one in headline(all_series(summary, "repair", "shapley"), summary):
        table = Table(
            f"Shapley split ({one.unit}). {one.title}, {one.where}", ["path", "layers", *ARMS, "difference", "p (Holm)"]
        )
        table.rows = [_row(table, one, name, layers, in_nats) for name, layers in repair_sites(one) if name in SPLIT]
        out.append(table)
    return out


def propagation_tables(summary: Summary) -> list[Table]:
    """How much the distance grows from the injected block to the last one, per injection."""
    found = [one for one in all_series(summary, "propagation", "amplification") if one.cells or one.contrasts]
    if not found:
        return []
    head = ["injected at block", "task", *ARMS, "angular / magnitude", "p (Holm)"]
    table = Table("Amplification: distance at the last block / at the injected block", head)
    for one in found:
        ratio = one.contrast(kind="ratio")
        arms = [table.number(one.cell(arm=arm)) for arm in ARMS]
        table.rows.append([one.layers or NONE, one.task, *arms, table.number(ratio, "value"), p_value(ratio)])
    return [table]


def curvature_tables(summary: Summary) -> list[Table]:
    """Curvatures, their difference and the limit of R per block."""
    out = []
    for one in all_series(summary, "curvature", "curvature"):
        head = ["block", *ARMS, "difference", "p (Holm)", "limit of R"]
        table = Table(f"Damage per delta² as delta goes to 0, nats per token; positions {one.positions}", head)
        for block in sorted({cell["block"] for cell in one.cells}):
            difference, ratio = (one.contrast(block=block, kind=kind) for kind in ("difference", "ratio"))
            arms = [table.number(one.cell(block=block, arm=arm)) for arm in ARMS]
            contrasts = [table.number(difference, "value"), p_value(difference), table.number(ratio, "value")]
            table.rows.append([str(block), *arms, *contrasts])
        out.append(table)
    return out


def published_table(summary: Summary) -> Table | None:
    """The published numbers with the run's own; None outside the presets that follow the paper."""
    entries = summary.get("published") or []
    if not entries:
        return None
    table = Table(
        f"Published numbers ({entries[0]['model']}) beside these", ["number", "delta", "paper", "measured", "agree"]
    )
    for one in entries:
        form = FORMS[one["what"] if one["task"] == "loss" or one["what"] != "damage" else "accuracy"]
        agree = {True: "yes", False: "no", None: NONE}[one["size_agrees"]]
        delta = NONE if one["delta"] is None else f"{one['delta']:g}"
        table.rows.append([_said(one), delta, form(one["paper"], None), table.number(one, "measured", form), agree])
    apart = {one["why"] for one in entries if one["size_agrees"] is None and one["measured"] is not None}
    table.notes += [f"sizes are not compared: {why}" for why in sorted(filter(None, apart))]
    return table


FORMS: Mapping[str, Form] = {
    **dict.fromkeys(("loss", "damage", "ratio"), in_nats),
    "accuracy": in_points,
    "recovery": in_percent,
}


def _said(one: Mapping[str, Any]) -> str:
    """`loss damage, angular`."""
    if one["delta"] is None:
        return f"clean {one['what']}"
    if one["what"] == "ratio":
        return "loss damage, angular / magnitude"
    what = {"loss": "loss damage", "pairs": "accuracy drop"}[one["task"]]
    return f"{one['repair']} repair, {one['arm']}" if one["repair"] else f"{what}, {one['arm']}"


def survival_table(summary: Summary) -> Table | None:
    """One line per noise policy: every claim's number and status, and the verdict."""
    rows = summary.get("audit") or []
    if not rows:
        return None
    claims = list(dict.fromkeys(row["claim"] for row in rows))
    found = {(row["policy_id"], row["claim"]): row for row in rows}
    table = Table("What survives a change of the noise policy", ["policy", *claims])
    for policy in dict.fromkeys(row["policy_id"] for row in rows):
        table.rows.append([policy, *(_survived(table, found.get((policy, claim))) for claim in claims)])
    return table


def effect_tables(summary: Summary) -> list[Table]:
    """Effects on both contrasts, the largest first, then the interactions."""
    out = []
    for measure, (title, axis) in PANELS.items():
        table = Table(f"{title}: {axis}", ["policy", "against", "change", "p (Holm)"])
        for kind in ("effect", "interaction"):
            for one in effects(summary, measure, kind):
                name = one["policy_id"] + (" (interaction)" if kind == "interaction" else "")
                table.rows.append([name, one["from"], table.number(one, "value"), p_value(one)])
        if table.rows:
            out.append(table)
    return out


def _row(table: Table, one: Series, name: str, layers: str | None, form: Form) -> list[str]:
    site = {"repair": name, "repair_layers": layers}
    arms = [table.number(one.cell(arm=arm, **site), form=form) for arm in ARMS]
    difference = one.contrast(kind="difference", **site)
    return [name, layers or NONE, *arms, table.number(difference, "value", form), p_value(difference)]


def _survived(table: Table, row: Mapping[str, Any] | None) -> str:
    if row is None:
        return NONE
    status = row["status"].replace("_", " ")
    if row["claim"] == VERDICT:
        return status
    if row["value"] is None and status == NOT_RUN:
        return status
    return f"{status}: {table.number(row, 'value')}"
