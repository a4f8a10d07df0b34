import csv
import itertools
import re
import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from made_up import summary

from polarlens.errors import UsageError
from polarlens.report import FIGURES
from polarlens.report.figures import write_figure
from polarlens.report.figures.style import svg

SVG = "{http://www.w3.org/2000/svg}"


def draw(document: dict[str, Any]) -> ElementTree.Element:
    return ElementTree.fromstring(svg(FIGURES["dissociation"](document)))


def marks(root: ElementTree.Element, role: str) -> list[ElementTree.Element]:
    """Marks with data behind them: `point` or `rule mark`."""
    return [e for e in root.iter() if e.get("role") == "graphics-symbol" and e.get("aria-roledescription") == role]


def texts(root: ElementTree.Element) -> list[str]:
    """Each text, or each line of it."""
    return [e.text for e in root.iter() if e.tag in (f"{SVG}text", f"{SVG}tspan") and e.text]


def expected(document: dict[str, Any], delta: float | None = None) -> list[dict[str, Any]]:
    return [
        cell
        for cell in document["cells"]
        if cell["measure"] in ("nll", "accuracy") and cell["positions"] == "all" and cell["delta"] > 0
        if delta in (None, cell["delta"])
    ]


def test_the_files_hold_the_numbers_of_the_summary(tmp_path: Path) -> None:
    document = summary(positions=("all", "no-sinks"))
    write_figure(tmp_path, "dissociation", document)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"dissociation.{end}" for end in ("csv", "png", "svg")]
    with (tmp_path / "dissociation.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    keys = ("task", "arm", "layers", "positions", "policy_id", "measure")
    drawn = {
        (*(row[key] for key in keys), float(row["delta"])): [float(row[k]) for k in ("mean", "ci95_low", "ci95_high")]
        for row in rows
    }
    assert len(rows) == len(drawn)
    assert drawn == {
        (*(cell[key] for key in keys), cell["delta"]): [cell["mean"], *cell["ci95"]] for cell in expected(document)
    }
    assert {(row["policy_id"], row["pair_policy"]) for row in rows} == {
        ("matched", ""),
        ("matched-common", "common"),
        ("matched-independent", "independent"),
    }
    root = ElementTree.parse(tmp_path / "dissociation.svg").getroot()
    picture = (tmp_path / "dissociation.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", picture[16:24])
    assert (width, height) == (2 * int(root.attrib["width"]), 2 * int(root.attrib["height"]))


def test_every_damage_has_a_mark_and_its_interval() -> None:
    document = summary()
    root = draw(document)
    points = marks(root, "point")
    assert len(points) == len(expected(document)) == 18
    hollow = [point for point in points if point.get("fill") == "white"]
    assert len(hollow) == 6  # the pairs under independent noise
    colours = {point.get("stroke") if point in hollow else point.get("fill") for point in points}
    assert colours == {"#0072B2", "#D55E00"}
    shapes = {(point.get("d") or "").count("A") > 0 for point in points if point not in hollow}
    assert shapes == {True, False}  # circles and squares
    dashes = {e.get("stroke-dasharray") for e in root.iter() if e.get("aria-roledescription") == "line mark"}
    assert len(dashes) == 2
    assert sum(e.get("stroke") in colours for e in root.iter(f"{SVG}line")) == 18


def test_axes_name_their_units() -> None:
    words = texts(draw(summary()))
    assert "relative displacement (fraction of the norm)" in words
    assert "accuracy drop (points)" in words
    assert any(word.startswith("loss damage (nats per token)") for word in words)
    assert {"0.02", "0.1", "0.5", "magnitude", "angular", "noise: common (filled), independent (hollow)"} <= set(words)
    assert "displacement (distance)" in texts(draw(summary(delta_mode="absolute", tasks=["pairs"])))
    assert "displacement delta" in texts(draw(summary(delta_mode=None, tasks=["pairs"])))


@pytest.mark.parametrize(("task", "title", "points"), [("loss", "Next-token loss", 6), ("pairs", "Minimal pairs", 12)])
def test_one_task_is_one_panel(task: str, title: str, points: int) -> None:
    root = draw(summary("inconclusive", tasks=[task]))
    assert len(marks(root, "point")) == points
    assert [word for word in texts(root) if word in ("Next-token loss", "Minimal pairs")] == [title]


def test_without_intervals_the_points_stay() -> None:
    root = draw(summary(intervals=False))
    assert len(marks(root, "point")) == 18
    assert not [e for e in root.iter(f"{SVG}line") if e.get("stroke") in ("#0072B2", "#D55E00")]


def test_blocks_are_drawn_at_one_delta(tmp_path: Path) -> None:
    document = summary(layers=("0", "2", "10"))
    write_figure(tmp_path, "dissociation", document)
    with (tmp_path / "dissociation.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["delta"] for row in rows} == {"0.1"}
    assert [row["layers"] for row in rows if row["arm"] == "angular" and row["task"] == "loss"] == ["0", "2", "10"]
    words = texts(ElementTree.parse(tmp_path / "dissociation.svg").getroot())
    assert "perturbed block" in words
    assert "mean and 95 % interval, at delta 0.1" in words
    assert len(rows) == len(expected(document, 0.1))


def test_a_log_axis_only_where_damages_are_far_apart() -> None:
    def log(document: dict[str, Any]) -> bool:
        return any(word.endswith("log scale") for word in texts(draw(document)))

    assert log(summary(tasks=["loss"]))  # 0.00826 to 1.19
    assert not log(summary(tasks=["loss"], deltas=(0.1, 0.2)))
    assert not log(summary(tasks=["pairs"]))
    below = summary(tasks=["loss"])
    for cell in below["cells"]:
        if cell["delta"] == 0.02:
            cell["ci95"] = [-0.01, 0.1]
    assert not log(below)


def test_nothing_is_moved_at_all() -> None:
    document = summary(intervals=False, deltas=(0.1,))
    for cell in document["cells"]:
        cell["mean"] = 0.0
    assert len(marks(draw(document), "point")) == 6


def test_nothing_measured_is_an_error_and_no_file(tmp_path: Path) -> None:
    document = summary("inconclusive", tasks=())
    with pytest.raises(UsageError, match="nothing to draw"):
        FIGURES["dissociation"](document)
    write_figure(tmp_path / "figures", "dissociation", document)
    assert not (tmp_path / "figures").exists()


def test_the_paper_preset_draws_losses_by_item(tmp_path: Path) -> None:
    write_figure(tmp_path, "dissociation", summary(preset="paper", tasks=["loss"], deltas=(1.0,)))
    with (tmp_path / "dissociation.csv").open(newline="") as file:
        means = {row["arm"]: (row["measure"], float(row["mean"])) for row in csv.DictReader(file)}
    assert means == {
        "magnitude": ("nll_item", pytest.approx(0.6195, rel=1e-12)),
        "angular": ("nll_item", pytest.approx(3.5565, rel=1e-12)),
    }


def test_the_numbers_of_the_blocks_do_not_touch() -> None:
    root = draw(summary(tasks=["loss"], layers=[str(n) for n in range(32)], deltas=(0.1,)))
    labels = [
        (float(re.findall(r"[-.\d]+", e.get("transform") or "")[0]), 3.4 * len(e.text or ""))  # middle, half width
        for e in root.iter(f"{SVG}text")
        if (e.text or "").isdigit() and e.get("text-anchor") == "middle" and e.get("opacity") != "0"
    ]
    assert len(labels) >= 8
    assert all(a + half + 2 < b - other for (a, half), (b, other) in itertools.pairwise(labels))


def test_the_subtitle_speaks_of_intervals_only_where_there_are_some() -> None:
    assert "mean and 95 % interval" in texts(draw(summary(tasks=["loss"])))
    assert "mean (no interval)" in texts(draw(summary(tasks=["loss"], intervals=False)))
