"""`report.html`: one file with the figures, the numbers and what is needed to run it again; no network."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polarlens.report.experiment_tables import (
    curvature_tables,
    effect_tables,
    propagation_tables,
    published_table,
    repair_tables,
    survival_table,
)
from polarlens.report.figures import FIGURES
from polarlens.report.figures.style import TITLES
from polarlens.report.grid import Table
from polarlens.report.numbers import NONE, listed, nats, share
from polarlens.report.probing_tables import probing_tables
from polarlens.report.sentence import sentence
from polarlens.report.shown import Summary, blocks, damages, displacement, model_title, positions_run
from polarlens.report.tables import Group, baseline_lines, claim_texts, groups
from polarlens.report.templating import Picture, bundle, data_link, environment, picture
from polarlens.rows.store import written_whole

FEW_SKIPPED = 4  # entries of one experiment; more are folded
Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Pictured:
    """A figure in the page. numbers: its CSV as an address that holds the data itself."""

    pictures: list[Picture]
    numbers: str


def write_page(path: Path, summary: Summary, manifest: Mapping[str, Any]) -> None:
    """Write the page of a run."""
    with written_whole(path) as file:
        file.write(render_page(summary, manifest).encode())


def render_page(summary: Summary, manifest: Mapping[str, Any]) -> str:
    """The page as text. Every string of the summary and the manifest is escaped."""
    sections = [(positions, groups(summary, positions)) for positions in positions_run(summary)]
    data_of, profile = manifest.get("data") or {}, manifest.get("state_profile") or {}
    headline = damages(summary, sections[0][0]) if sections else []
    pictured = _pictures(summary)
    template = environment().get_template("report.html")
    return template.render(
        summary=summary,
        title=model_title(summary["model"]),
        sentence=sentence(summary),
        by_policy=_by_policy(summary["verdict"]),
        by_layer=_by_layer(summary["verdict"]),
        baseline=baseline_lines(summary),
        figures=pictured,
        bundle=bundle() if pictured else "",
        published=published_table(summary),
        survival=survival_table(summary),
        effects=effect_tables(summary),
        tables=TABLES,
        specs={one.name: one.spec for figure in pictured.values() for one in figure.pictures},
        few=FEW_SKIPPED,
        displacement=displacement(summary),
        claims=claim_texts(summary),
        sections=sections,
        notes=_notes,
        several=len(blocks(headline)) > 1,
        layers=[name for name in blocks(headline) if name is not None],
        policies=[(name, _factors(factors)) for name, factors in summary["policies"].items()],
        sources=[(task, *_source(source)) for task, data in data_of.items() for source in data.get("sources", ())],
        environment=_environment(manifest),
        profile_task=profile.get("task"),
        profile=[_block(block) for block in profile.get("blocks", ())],
        command=manifest.get("command"),
    )


TABLES: Mapping[str, Callable[[Summary], list[Table]]] = {
    "repair": repair_tables,
    "propagation": propagation_tables,
    "curvature": curvature_tables,
    "probing": probing_tables,
}


def _pictures(summary: Summary) -> dict[str, Pictured]:
    """Each figure of the run, a picture per panel, so that a narrow screen can stack them."""
    return {
        name: Pictured(
            [
                picture(chart, f"{name}-{k}", f"{title}: the same numbers stand in the tables")
                for k, (title, chart) in enumerate(panels.items())
            ],
            data_link(figure.csv(summary)),
        )
        for name, figure in FIGURES.items()
        if (panels := figure.panels(summary))
    }


def _notes(found: Sequence[Group]) -> list[str]:
    """The notes of the groups of one table, each with the task it is about where it is not about all."""
    return list(
        dict.fromkeys(note if note.startswith("*") else f"{TITLES[g.task]}: {note}" for g in found for note in g.notes)
    )


def _by_policy(verdict: Mapping[str, Any]) -> Pairs:
    return [(name, kind or "not run") for name, kind in verdict["by_pair_policy"].items()]


def _by_layer(verdict: Mapping[str, Any]) -> Pairs:
    """Each kind with the blocks where it was found."""
    found: dict[str, list[str]] = {}
    for block, one in (verdict.get("by_layer") or {}).items():
        found.setdefault(one["kind"], []).append(block)
    return [(kind, ", ".join(names)) for kind, names in found.items()]


def _factors(factors: Mapping[str, Any]) -> str:
    """`factor: level`, by arm where the arms differ."""

    def level(value: Any) -> str:
        return ", ".join(f"{arm} {one}" for arm, one in value.items()) if isinstance(value, Mapping) else str(value)

    return "; ".join(
        f"{name.replace('_', ' ')}: {level(value)}" for name, value in factors.items() if value is not None
    )


def _source(source: Mapping[str, Any]) -> tuple[str, str]:
    """(spec, what is known of it): items and rows, what was skipped, digest or revision."""
    items, rows = source.get("items"), source.get("rows")
    counts = "" if items is None else f"{items:,}" + ("" if rows is None else f" of {rows:,} rows")
    skipped = "; ".join(f"{why}: {n}" for why, n in (source.get("skipped") or {}).items())
    known = [f"{key} {value}" for key, value in source.items() if key not in ("spec", "items", "rows", "skipped")]
    return str(source.get("spec", "source")), "; ".join(filter(None, [_behind(counts, skipped), *known]))


def _environment(manifest: Mapping[str, Any]) -> Pairs:
    """What was run, with what, on what; a line for whatever the manifest holds."""
    tokenizer = manifest.get("tokenizer") or {}
    unigram, seconds, peak = (manifest.get(key) for key in ("unigram_nll", "wall_seconds", "peak_memory_bytes"))
    took = "" if seconds is None else f"{seconds:,.0f} s of work"
    lines = [
        *_model(manifest.get("model") or {}),
        ("Tokenizer, sha256", tokenizer.get("sha256")),
        ("Before each item", _first_token(tokenizer.get("bos"))),
        ("Seeds", listed(manifest.get("seeds") or [])),
        ("Unigram cross-entropy", "not known" if unigram is None else f"{nats(unigram)} nats per token"),
        ("Versions", _named(manifest.get("versions"))),
        ("Hardware", _named(manifest.get("hardware"))),
        ("Run", ", ".join(filter(None, [" to ".join(filter(None, map(manifest.get, ("started", "updated")))), took]))),
        ("Peak memory", "" if peak is None else f"{peak / 2**20:,.0f} MiB"),
        ("Configuration", json.dumps(_given(manifest.get("configuration") or {}), ensure_ascii=False)),
    ]
    return [(name, str(value)) for name, value in lines if value]


def _model(model: Mapping[str, Any]) -> list[tuple[str, Any]]:
    n_params, n_layers, width = (model.get(key) for key in ("n_params", "n_layers", "width"))
    size = "" if n_params is None else f"{n_params:,} parameters"
    shape = "" if n_layers is None else f"{n_layers} blocks" + ("" if width is None else f" of width {width}")
    kind = [model.get("family"), model.get("norm_kind"), _behind(size, shape, ", {}"), model.get("dtype")]
    source = " ".join(str(value) for value in (model.get("source") or {}).values() if value is not None)
    named = ": ".join(filter(None, [model.get("name"), ", ".join(filter(None, kind))]))
    return [("Model", named), ("Source", source), ("Weights, sha256", model.get("weights_sha256"))]


def _first_token(bos: Mapping[str, Any] | None) -> str:
    if not bos:
        return ""
    return "none" if bos.get("token") is None else f"{bos['token']} (id {bos.get('id')}, {bos.get('origin')})"


def _named(values: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in (values or {}).items() if value is not None)


def _behind(first: str, second: str, form: str = " ({})") -> str:
    """`first (second)`, without what is empty."""
    return first + form.format(second) if first and second else first or second


def _given(configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in configuration.items() if value is not None and value is not False}


def _block(block: Mapping[str, Any]) -> tuple[str, ...]:
    norms = [nats(block.get(f"norm_{what}")) for what in ("median", "mean", "max")]
    shares = [share(block.get(name)) for name in ("sink_share", "top_token_energy", "top5_channel_energy")]
    spread = [nats(block.get(name)) for name in ("participation_ratio", "participation_ratio_no_sinks")]
    return (str(block.get("block", NONE)), *norms, *shares, *spread)
