"""Probes in the report: the figure, its numbers, the tables."""

import csv
import io
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from made_up import manifest, summary
from made_up_probing import ALONE, BLOCKS, GAINS, MAJORITY, SCORES, probing

from polarlens.report import FIGURES
from polarlens.report.figures import available
from polarlens.report.figures.style import svg
from polarlens.report.numbers import estimate, nats, points
from polarlens.report.page import TABLES, render_page
from polarlens.report.shown import damages
from polarlens.report.terminal import render_text

PANELS = {
    "Read: part of speech": 2 * len(BLOCKS),
    "Read: parse depth over confounds": 2 * len(BLOCKS),
    "Computed: next-token loss": 4,
    "Computed: minimal pairs": 4,
}


def document(*, alone: bool = True, **more: Any) -> dict[str, Any]:
    whole = summary(**more)
    for key, entries in probing(alone=alone).items():
        whole[key] += entries
    return whole


def marks(chart: Any) -> dict[str, list[dict[str, Any]]]:
    """Panel -> the data of its points."""
    return {title: panel.layer[-1].data.values for title, panel in chart.items()}


def test_every_panel_draws_the_summary_and_nothing_else() -> None:
    found = marks(FIGURES["encoding"].panels(document()))
    assert {title: len(data) for title, data in found.items()} == PANELS
    drawn = {(one["arm"], one["block"]): one["value"] for one in found["Read: part of speech"]}
    assert drawn == pytest.approx({(name, b): SCORES[name] + b for name in ("norm", "direction") for b in BLOCKS})
    drawn = {(one["arm"], one["block"]): one["value"] for one in found["Read: parse depth over confounds"]}
    assert drawn == pytest.approx({(name, b): GAINS[name] + b / 100 for name in ("norm", "direction") for b in BLOCKS})
    drawn = {(one["arm"], one["block"]): one["value"] for one in found["Computed: next-token loss"]}
    assert drawn == pytest.approx({(arm, b): ALONE[arm] * (1 + b) for arm in ALONE for b in (0, 3)})
    text = svg(FIGURES["encoding"](document()))
    ElementTree.fromstring(text)
    for part in ("most frequent class, 17.6", "accuracy (points)", "loss damage (nats per token)", "−1: embeddings"):
        assert part in text
    colours = {arm: svg_colour(text, arm) for arm in ("norm", "direction", "magnitude", "angular")}
    assert colours["norm"] == colours["magnitude"] != colours["direction"] == colours["angular"]


def svg_colour(text: str, name: str) -> str:
    """The fill of a mark of that group."""
    for element in ElementTree.fromstring(text).iter():
        label = element.get("aria-label") or ""
        if element.get("aria-roledescription") == "point" and label.startswith(f": {name};"):
            return element.get("fill") or ""
        if element.get("aria-roledescription") == "point" and f"arm: {name}" in label:
            return element.get("fill") or ""
    raise AssertionError(f"no mark of {name}")


def test_the_csv_holds_every_number() -> None:
    whole = document()
    rows = list(csv.DictReader(io.StringIO(FIGURES["encoding"].csv(whole))))
    cells = [one for one in whole["cells"] if one["experiment"] == "probing"]
    assert [float(row["mean"]) for row in rows] == [one["mean"] for one in cells]
    assert {row["pooling"] for row in rows} == {"", "last", "mean"}
    assert {row["measure"] for row in rows} == {"score", "drop", "nll", "accuracy"}


def test_without_single_blocks_and_without_probes() -> None:
    found = marks(FIGURES["encoding"].panels(document(alone=False)))
    assert list(found) == list(PANELS)[:2]
    assert "encoding" not in available(summary())
    assert all(TABLES[name](summary()) == [] for name in ("encoding", "scores", "drops"))
    assert 'id="probing"' not in render_page(summary(), manifest())


def test_one_line_per_block_sets_encoding_beside_computation() -> None:
    (table,) = TABLES["encoding"](document())
    assert [row[0] for row in table.rows] == [str(b) for b in BLOCKS]
    row = table.rows[2]
    assert row[1].startswith(points(SCORES["norm"] + 3))
    assert row[2].startswith(points(SCORES["direction"] + 3))
    assert row[3].startswith(nats(GAINS["norm"] + 0.03))
    assert row[5] == estimate(0.0084, [0.0084 * 0.9, 0.0084 * 1.1], "nats")
    assert row[8] == estimate(17.2, [17.2 * 0.9, 17.2 * 1.1], "points")
    assert table.rows[0][5:] == ["–"] * 4
    assert len(table.head) == len(row) == 9


def test_scores_and_drops_have_their_tables() -> None:
    accuracy, gain = TABLES["scores"](document())
    assert [row[0] for row in accuracy.rows] == ["-1", "0", "3", "majority"]
    assert accuracy.rows[3][6] == estimate(MAJORITY, [16.1, 19.2], "points")
    assert (accuracy.rows[0][7], len(gain.rows)) == ("0.012", 3)
    (drops,) = TABLES["drops"](document())
    assert drops.title == "What probes lose after a perturbation of layers 3-4, delta 0.1"
    assert len(drops.rows) == 6
    assert drops.rows[0][2:4] == [
        "3",
        estimate(SCORES["norm"] / 7, [SCORES["norm"] / 14, SCORES["norm"] / 3.5], "points"),
    ]
    assert drops.rows[0][5].endswith("(1)")
    assert drops.notes == ["too few sentences"]


@pytest.mark.parametrize("tasks", [(), ("loss", "pairs")])
def test_the_page_and_the_terminal_stand_with_and_without_a_sweep(tasks: tuple[str, ...]) -> None:
    whole = document(tasks=tasks)
    page = render_page(whole, manifest())
    assert page.count('id="probing"') == 1
    assert "Encoding beside computation" in page
    render_text(whole)
    assert damages(whole, "all") == damages(summary(tasks=tasks), "all")
