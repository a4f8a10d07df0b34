"""The figure `encoding` and the tables of probing: the summary's own numbers, in their place, and nothing else."""

import csv
import io
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from made_up import manifest, summary
from made_up_probing import ARMS, BLOCKS, probed
from test_page import HOSTILE, Page, external

from polarlens.errors import UsageError
from polarlens.report import FIGURES, plot, render_text, sentence
from polarlens.report import page as page_module
from polarlens.report.figures import available, write_figure
from polarlens.report.figures.style import COLOURS, svg
from polarlens.report.grid import Table
from polarlens.report.page import render_page
from polarlens.report.probing_tables import probing_tables
from polarlens.report.tables import groups

READ = ("Read: part of speech", "Read: parse depth")
USED = ("Used: next-token loss", "Used: minimal pairs")
OF = {
    READ[0]: {"target": "upos", "metric": "accuracy"},
    READ[1]: {"target": "depth", "metric": "gain"},
    USED[0]: {"task": "loss", "measure": "nll", "policy_id": "matched"},
    USED[1]: {"task": "pairs", "measure": "accuracy", "policy_id": "matched-independent"},
}


def picked(document: Mapping[str, Any], key: str = "cells", **wanted: object) -> list[dict[str, Any]]:
    """Probing's entries with these values; what is not named is None where it tells entries apart."""
    plain = {"after_arm": None, "phenomenon": None} | wanted
    return [
        one
        for one in document[key]
        if one["experiment"] == "probing" and all(one.get(name) == value for name, value in plain.items())
    ]


def only(document: Mapping[str, Any], key: str = "cells", **wanted: object) -> dict[str, Any]:
    (one,) = picked(document, key, **wanted)
    return one


def panel_data(chart: Any) -> list[dict[str, Any]]:
    """The points of a panel: the data of its last layer."""
    return _layers(chart)[-1]


def references(chart: Any) -> list[dict[str, Any]]:
    return [one for values in _layers(chart) for one in values if "name" in one]


def _layers(chart: Any) -> list[list[dict[str, Any]]]:
    """The data of each layer."""
    spec = chart.to_dict()
    return [spec["datasets"][layer["data"]["name"]] for layer in spec["layer"]]


@pytest.mark.parametrize("title", [*READ, *USED])
def test_a_panel_draws_the_numbers_of_the_summary(title: str) -> None:
    document = probed()
    chart = FIGURES["encoding"].panels(document)[title]
    drawn = {(p["block"], p["arm"]): (p["value"], p["low"], p["high"]) for p in panel_data(chart)}
    expected = {}
    if title in READ:
        for group, name in (("norm, magnitude", "norm"), ("direction, angular", "direction")):
            for one in picked(document, measure="score", representation=name, pooling="last", **OF[title]):
                expected[one["block"], group] = (one["mean"], *one["ci95"])
        assert len(expected) == 2 * len(BLOCKS)
    else:
        for group, arm in zip(("norm, magnitude", "direction, angular"), ARMS, strict=True):
            for one in picked(document, arm=arm, **OF[title]):
                expected[int(one["layers"]), group] = (one["mean"], *one["ci95"])
        assert len(expected) == 2 * (len(BLOCKS) - 1)
    assert drawn == expected


def test_references_are_the_full_state_a_random_number_and_the_majority() -> None:
    document = probed()
    panels = FIGURES["encoding"].panels(document)
    for title in READ:
        found = {(one["name"], one["block"]): one["value"] for one in references(panels[title])}
        expected = {
            (name, one["block"]): one["mean"]
            for name in ("full", "random-1d")
            for one in picked(document, measure="score", representation=name, pooling="last", **OF[title])
        }
        if title == READ[0]:
            level = only(document, representation="majority")["mean"]
            expected |= {("majority", block): level for block in BLOCKS}
        assert found == expected
    assert all(not references(panels[title]) for title in USED)


def test_the_figure_has_two_colours_shared_by_a_representation_and_its_arm() -> None:
    root = ElementTree.fromstring(svg(FIGURES["encoding"](probed())))
    points = [e for e in root.iter() if e.get("aria-roledescription") == "point"]
    assert len(points) == 2 * 2 * len(BLOCKS) + 2 * 2 * (len(BLOCKS) - 1)
    for point in points:
        blue = "norm, magnitude" in (point.get("aria-label") or "")
        assert point.get("fill") == COLOURS[0 if blue else 1]
        assert ("A" in (point.get("d") or "")) == blue  # circles and squares
    words = [e.text for e in root.iter() if e.text]
    assert words.count("norm, magnitude") == 1
    assert {"emb.", "accuracy (points)", "gain in R² over confounds", "accuracy drop (points)", "majority"} <= set(
        words
    )


def test_the_csv_holds_both_poolings_and_every_noise() -> None:
    document = probed()
    rows = list(csv.DictReader(io.StringIO(FIGURES["encoding"].csv(document))))
    names = ("norm", "direction", "full", "random-1d", "majority")
    cells = [
        one
        for of in (OF[READ[0]], OF[READ[1]])
        for one in picked(document, measure="score", **of)
        if one["representation"] in names
    ]
    read = {
        (str(one.get("block", "")), one["representation"], one["target"], one.get("pooling", "")): one for one in cells
    }
    used = {
        (one["layers"], one["arm"], one["task"], one["policy_id"]): one
        for task, measure in (("loss", "nll"), ("pairs", "accuracy"))
        for one in picked(document, task=task, measure=measure)
    }
    assert len(rows) == len(read) + len(used)
    for row in rows:
        last = row["pooling"] if row["quantity"] == "score" else row["policy_id"]
        found = (read if row["quantity"] == "score" else used)[row["block"], row["series"], row["of"], last]
        assert [float(row[k]) for k in ("mean", "ci95_low", "ci95_high")] == [found["mean"], *found["ci95"]]
        assert row["unit"] == {"gain": "R2", "accuracy": "points", "nll": "nats per token"}[row["measure"]]


def test_nothing_is_drawn_or_told_without_the_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = summary()
    write_figure(tmp_path / "figures", "encoding", document)
    assert not (tmp_path / "figures").exists()
    assert probing_tables(document) == []
    assert "Probes" not in render_text(document)
    with pytest.raises(UsageError, match="no numbers for the figure 'encoding'"):
        plot(document, "encoding")
    monkeypatch.setattr(page_module, "_pictures", lambda summary: {})
    assert 'id="probing"' not in render_page(document, manifest())


def test_probing_alone_is_a_whole_report(tmp_path: Path) -> None:
    document = probed(alone=True)
    assert available(document) == ["encoding"]
    write_figure(tmp_path, "encoding", document)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"encoding.{end}" for end in ("csv", "png", "svg")]
    page = Page(render_page(document, manifest()))
    assert page.tags.count("svg") == 4
    assert "Encoding against computation" in page.text
    assert "Damages, positions" not in page.text
    assert "None" not in page.text
    assert external(page) == []


def test_damages_of_single_blocks_are_not_the_sweeps() -> None:
    plain, document = summary(), probed()
    assert groups(document, "all") == groups(plain, "all")
    assert sentence(document) == sentence(plain)
    assert FIGURES["dissociation"].csv(document) == FIGURES["dissociation"].csv(plain)
    kept = render_text(document).splitlines()
    start = next(k for k, line in enumerate(kept) if line.startswith("Probes"))
    assert kept[:start] + kept[start + 4 :] == render_text(plain).splitlines()


def test_the_terminal_has_three_lines_at_the_middle_block() -> None:
    document = probed()
    here = {"block": 2, "pooling": "last", "measure": "score"}
    said = []
    for of, form in ((OF[READ[0]], ".1f"), (OF[READ[1]], "#.3g")):
        for name in ("direction", "norm"):
            one = only(document, representation=name, **here, **of)
            said.append(f"{name} {one['mean']:{form}} [")
    text = render_text(document)
    assert "Probes at block 2, held-out sentences" in text
    assert all(one in text for one in said)
    assert f"majority {only(document, representation='majority')['mean']:.1f}" in text


def points(one: Mapping[str, Any], key: str = "mean") -> str:
    return "{:.1f} [{:.1f}, {:.1f}]".format(one[key], *one["ci95"]).replace("-", "−")


def table(document: Mapping[str, Any], start: str) -> Table:
    return next(one for one in probing_tables(document) if one.title.startswith(start))


def test_one_line_per_block_of_encoding_against_computation() -> None:
    document = probed()
    found = table(document, "Encoding against computation")
    assert "delta 0.1, independent noise" in found.title
    assert [row[0] for row in found.rows] == ["embeddings", "0", "2", "5"]
    assert all(len(row) == len(found.head) for row in found.rows)
    for block, row in zip(BLOCKS, found.rows, strict=True):
        at = {"measure": "score", "block": block, "pooling": "last"}
        names = ("norm", "direction")
        assert list(row[1:3]) == [points(only(document, representation=n, **at, **OF[READ[0]])) for n in names]
        if block >= 0:
            cells = [only(document, layers=str(block), arm=arm, **OF[USED[1]]) for arm in ARMS]
            assert list(row[7:9]) == [points(cell) for cell in cells]
        else:
            assert set(row[5:9]) == {"–"}


def test_scores_stand_with_their_controls() -> None:
    document = probed()
    found = table(document, "Part of speech, pooling last")
    for row in found.rows[:-1]:
        block = -1 if row[0] == "embeddings" else int(row[0])
        at = {"block": block, "representation": row[1], "pooling": "last", "measure": "score", "target": "upos"}
        assert list(row[2:]) == [points(only(document, metric=m, **at)) for m in ("accuracy", "selectivity")]
    assert len(found.rows) == 5 * len(BLOCKS) + 1
    assert list(found.rows[-1]) == ["–", "majority", points(only(document, representation="majority")), "–"]
    assert [row[1] for row in table(document, "Parse depth, pooling").rows[-2:]] == ["confounds", "confounds+upos"]


def test_what_a_perturbation_takes_stands_with_the_difference_of_the_arms() -> None:
    document = probed()
    found = table(document, "Part of speech: drop in accuracy, points; layers 2-3 perturbed at delta 0.1")
    assert [row[:2] for row in found.rows] == [
        [block, name] for block in ("2", "5") for name in ("direction", "norm", "full", "norm-profile")
    ]
    for row in found.rows:
        at = {"block": int(row[0]), "representation": row[1], "measure": "drop", "pooling": "last", **OF[READ[0]]}
        expected = [points(only(document, after_arm=arm, **at)) for arm in ARMS]
        test = only(document, "contrasts", after_arm="angular - magnitude", **at)
        assert list(row[2:]) == [*expected, points(test, "value"), "0.017"]


def test_direction_against_norm_stands_with_its_p_value() -> None:
    document = probed()
    for row in table(document, "Direction − norm").rows:
        block = -1 if row[0] == "embeddings" else int(row[0])
        one = only(document, "contrasts", measure="score", block=block, pooling="last", **OF[READ[0]])
        assert list(row[1:3]) == [points(one, "value"), "0.029"]


def test_a_score_without_interval_says_why() -> None:
    document = probed()
    cell = only(document, measure="score", block=2, representation="norm", pooling="last", **OF[READ[1]])
    cell.update(mean=None, ci95=None, why="too few sentences")
    found = table(document, "Encoding against computation")
    assert found.rows[2][3] == "– (1)"
    assert found.notes == ["too few sentences"]
    panel = FIGURES["encoding"].panels(document)[READ[1]]
    assert (2, "norm, magnitude") not in {(p["block"], p["arm"]) for p in panel_data(panel)}


def test_hostile_names_are_text() -> None:
    document = probed(alone=True)
    for cell in document["cells"]:
        if cell.get("representation") in ("majority", "confounds"):
            cell["representation"] = HOSTILE
        if "after_arm" in cell:
            cell["layers"] = HOSTILE
        if cell["experiment"] == "probing" and "task" in cell:
            cell["policy_id"] = HOSTILE
    text = render_page(document, manifest())
    page = Page(text)
    assert page.tags.count("script") == 3
    assert "<" not in page.scripts[1]
    assert external(page) == []
    assert page.words.count(HOSTILE) >= 2
    assert "<script>alert" not in text
