"""`report.html`: one file with the figure, the numbers and what is needed to run it again; no script, no network."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polarlens.report.figures import panels, styled, svg
from polarlens.report.numbers import listed, nats, share
from polarlens.report.sentence import sentence
from polarlens.report.shown import Summary, blocks, damages, displacement, positions_run
from polarlens.report.tables import baseline_lines, claim_texts, groups
from polarlens.rows.store import written_whole

Pairs = list[tuple[str, str]]


def write_page(path: Path, summary: Summary, manifest: Mapping[str, Any]) -> None:
    """Write the page of a run."""
    with written_whole(path) as file:
        file.write(render_page(summary, manifest).encode())


def render_page(summary: Summary, manifest: Mapping[str, Any]) -> str:
    """The page as text. Every string of the summary and the manifest is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("polarlens.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["whole"] = _whole
    sections = [(positions, groups(summary, positions)) for positions in positions_run(summary)]
    headline = damages(summary, sections[0][0]) if sections else []
    return environment.get_template("report.html").render(
        summary=summary,
        sentence=sentence(summary),
        by_policy=_by_policy(summary["verdict"]),
        by_layer=_by_layer(summary["verdict"]),
        baseline=baseline_lines(summary),
        figures=_pictures(summary),
        displacement=displacement(summary),
        claims=claim_texts(summary),
        sections=sections,
        several=len(blocks(headline)) > 1,
        layers=[name for name in blocks(headline) if name is not None],
        policies=[(name, _factors(factors)) for name, factors in summary["policies"].items()],
        sources=[(task, _source(source)) for task, data in manifest["data"].items() for source in data["sources"]],
        environment=_environment(manifest),
        profile_task=manifest["state_profile"]["task"],
        profile=[_block(block) for block in manifest["state_profile"]["blocks"]],
        command=manifest["command"],
    )


def _whole(text: str) -> str:
    """An interval that is not broken across lines."""
    return text.replace(", ", ",\u00a0")


def _pictures(summary: Summary) -> list[tuple[str, Any]]:
    """(title, inline SVG) of each panel of the figure, so that a narrow screen can stack them."""
    from markupsafe import Markup

    out = []
    for task, chart in panels(summary).items():
        text = svg(styled(chart))
        text = text[text.index("<svg") :]
        # several drawings share one document: their ids must differ
        text = re.sub(r'id="([^"]+)"', rf'id="{task}-\1"', text)
        text = re.sub(r"url\(#([^)]+)\)", rf"url(#{task}-\1)", text)
        out.append((f"{task}: damage of both arms", Markup(text)))
    return out


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


def _source(source: Mapping[str, Any]) -> tuple[str, str, str]:
    """spec, items and rows, digest or revision: whatever the source is known by."""
    skipped = "; ".join(f"{why}: {n}" for why, n in source["skipped"].items())
    counts = f"{source['items']:,} of {source['rows']:,} rows" + (f" ({skipped})" if skipped else "")
    known = [f"{key} {value}" for key, value in source.items() if key not in ("spec", "items", "rows", "skipped")]
    return str(source["spec"]), counts, "; ".join(known)


def _environment(manifest: Mapping[str, Any]) -> Pairs:
    """What was run, with what, on what."""
    model, hardware, bos = manifest["model"], manifest["hardware"], manifest["tokenizer"]["bos"]
    size = f"{model['n_params']:,} parameters, {model['n_layers']} blocks of width {model['width']}"
    source = " ".join(str(value) for value in model["source"].values() if value is not None)
    first = "none" if bos["token"] is None else f"{bos['token']} (id {bos['id']}, {bos['origin']})"
    return [
        ("Model", f"{model['name']}: {model['family']}, {model['norm_kind']}, {size}, {model['dtype']}"),
        ("Source", source),
        ("Weights, sha256", str(model["weights_sha256"])),
        ("Tokenizer, sha256", str(manifest["tokenizer"]["sha256"])),
        ("Before each item", first),
        ("Seeds", listed(manifest["seeds"])),
        ("Unigram cross-entropy", _unigram(manifest["unigram_nll"])),
        ("Versions", ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())),
        ("Hardware", ", ".join(f"{name} {value}" for name, value in hardware.items() if value is not None)),
        ("Run", f"{manifest['started']} to {manifest['updated']}, {manifest['wall_seconds']:,.0f} s of work"),
        ("Peak memory", f"{manifest['peak_memory_bytes'] / 2**20:,.0f} MiB"),
        ("Configuration", json.dumps(_given(manifest["configuration"]), ensure_ascii=False)),
    ]


def _unigram(value: float | None) -> str:
    return "not known" if value is None else f"{nats(value)} nats per token"


def _given(configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in configuration.items() if value is not None and value is not False}


def _block(block: Mapping[str, Any]) -> tuple[str, ...]:
    norms = [nats(block[f"norm_{what}"]) for what in ("median", "mean", "max")]
    shares = [share(block[name]) for name in ("sink_share", "top_token_energy", "top5_channel_energy")]
    return (str(block["block"]), *norms, *shares)
