"""`compare.html`: several runs on one page, from `compare.json` alone; no script, no network."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polarlens.report.compare_figure import TITLES, compare_panels
from polarlens.report.compare_shown import (
    Document,
    answers,
    by_norm,
    compared,
    norm_name,
    positions,
    size,
    status,
    tested,
)
from polarlens.report.numbers import NONE, estimate, nats, share
from polarlens.report.shown import displacement, loss_measure
from polarlens.report.tables import DIFFERENCES, claim_texts
from polarlens.report.templating import Picture, environment, picture
from polarlens.rows.store import written_whole


def write_compare_page(path: Path, document: Document) -> None:
    """Write the page of a comparison."""
    with written_whole(path) as file:
        file.write(render_compare_page(document).encode())


def render_compare_page(document: Document) -> str:
    """The page as text. Every string of the document is escaped."""
    ids = tested(document)
    models = [(norm, [_model(run, ids) for run in runs]) for norm, runs in by_norm(document).items()]
    found = compared(document)
    return environment().get_template("compare.html").render(
        title=", ".join(run["model"] for run in document["runs"]),
        n_runs=len(document["runs"]),
        verdicts=answers(document)[0],
        answers=answers(document)[1:],
        figures=_pictures(document),
        displacement=displacement(document["runs"][0]),
        ids=ids,
        models=models,
        claims=claim_texts(document),
        by_model=[(one["model"], norm_name(one)) for one in document["runs"]],
        blocks=found,
        differences=DIFFERENCES,
        positions=positions(document["runs"][0]),
        elsewhere=len(document["contrasts"]) - sum(len(line.found) for block in found for line in block.lines),
        profiles=[row for run in document["runs"] if (row := _profile(run)) is not None],
        warnings=document["warnings"],
    )  # fmt: skip


def _pictures(document: Document) -> list[Picture]:
    words = "each model's contrast of the arms against delta; the numbers stand in figures/compare-ratio.csv"
    return [picture(chart, task, f"{TITLES[task]}: {words}") for task, chart in compare_panels(document).items()]


def _model(run: Mapping[str, Any], ids: list[str]) -> dict[str, Any]:
    """A line of the table of models."""
    loss, pairs = run["baseline"]["loss"], run["baseline"]["pairs"]
    clean_loss = loss[loss_measure(run)] if loss else {"mean": None, "ci95": None}
    return {
        "name": run["model"],
        "source": run["source"],
        "path": run["path"],
        "size": size(run),
        "layers": run["layers"] + (f" of {run['n_layers']}" if run["n_layers"] else ""),
        "loss": estimate(clean_loss["mean"], clean_loss["ci95"], "nats"),
        "accuracy": estimate(pairs["accuracy"], pairs["ci95"], "points") if pairs else NONE,
        "verdict": run["verdict"]["kind"].replace("_", " "),
        "why": run["verdict"]["why"],
        "claims": [status(run, id_).replace("_", " ") for id_ in ids],
    }


def _profile(run: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Clean states at the run's perturbed blocks: the range over the blocks of each number."""
    at = {block for group in run["blocks"] for block in group}
    found = [one for one in (run["state_profile"] or {}).get("blocks", ()) if one["block"] in at]
    if not found:
        return None
    columns = [("norm_median", nats), ("sink_share", share), ("top5_channel_energy", share)]
    columns += [("participation_ratio", nats), ("participation_ratio_no_sinks", nats)]
    return (run["model"], run["layers"], *(_range([form(one.get(name)) for one in found]) for name, form in columns))


def _range(texts: list[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else f"{texts[0]} to {texts[-1]}"
