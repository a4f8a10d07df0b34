"""Figures and tables of repair, propagation, curvature and audit: the summary's numbers, each where it belongs."""

import csv
import io
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from made_up import manifest, summary
from made_up_experiments import RECOVERED, SPLIT, UNDEFINED, whole

from polarlens.report import FIGURES
from polarlens.report.experiment_tables import published_table
from polarlens.report.figures import available
from polarlens.report.figures.style import svg
from polarlens.report.numbers import points
from polarlens.report.page import TABLES, render_page

OF = {"repair": "recovery", "shapley": "shapley", "propagation": "relative", "curvature": "curvature"}


def lines(name: str, document: dict[str, Any]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(FIGURES[name].csv(document))))


def values(found: list[dict[str, str]]) -> set[float]:
    return {float(row[key]) for row in found for key in ("mean", "value") if row.get(key)}


def test_every_figure_is_drawn_once_there_are_numbers() -> None:
    assert available(whole()) == ["dissociation", "audit", "repair", "shapley", "propagation", "curvature"]
    assert "repair-layers" in available(whole(layers=("8", "9", "10")))
    assert available(summary()) == ["dissociation"]
    for name in available(whole()):
        root = ElementTree.fromstring(svg(FIGURES[name](whole())))
        drawn = [e for e in root.iter() if e.get("aria-roledescription") == "point"]
        assert drawn, name


@pytest.mark.parametrize("name", list(OF))
def test_the_csv_holds_the_summarys_numbers(name: str) -> None:
    document = whole()
    known = {
        one[key]
        for part, key in (("cells", "mean"), ("contrasts", "value"))
        for one in document[part]
        if one["experiment"] != "sweep" and one[key] is not None
    }
    found = values(lines(name, document))
    assert found <= known
    wanted = {
        one["mean"]
        for one in document["cells"]
        if (one["measure"], one["experiment"]) == (OF[name], "repair" if name == "shapley" else name)
        and one["mean"] is not None
        and one.get("of") in (None, "nll", "accuracy", "margin")
    }
    assert wanted
    assert wanted <= found


def test_recoveries_stand_in_their_rows_and_what_is_undefined_says_why() -> None:
    loss, *others = TABLES["repair"](whole())
    assert loss.title == "Recovered share of the damage. Next-token loss, at delta 0.1, layers 8-15 perturbed"
    angular = {row[0]: row[3] for row in loss.rows}
    for name, value in RECOVERED.items():
        assert angular[name].startswith(f"{points(100 * value)} % [")
    assert any(UNDEFINED in table.notes for table in others)
    (split, *_) = [table for table in others if table.title.startswith("Shapley split (nats per token)")]
    assert {row[0] for row in split.rows} == {"attention", "mlp", "interaction", "out of reach"} <= set(SPLIT)


def test_the_page_has_a_section_for_each() -> None:
    page = render_page(whole(), manifest())
    for name in ("audit", "repair", "propagation", "curvature"):
        assert page.count(f'<h2 id="{name}">') == 1
    assert render_page(summary(), manifest()).count("<h2 id=") == 0


def test_published_numbers_stand_beside_the_measured_ones() -> None:
    entry = {"model": "pythia-410m", "task": "loss", "arm": None, "repair": None, "why": None, "size_agrees": True}
    found = [
        {**entry, "what": "ratio", "delta": 1.0, "paper": 42.87, "measured": 40.0, "ci95": [30.0, 50.0]},
        {**entry, "what": "recovery", "repair": "norm", "arm": "angular", "delta": 5.0, "paper": 0.137, "measured": 0.2}
        | {"ci95": [0.18, 0.22], "size_agrees": False},
        {**entry, "what": "damage", "task": "pairs", "arm": "magnitude", "delta": 15.0, "paper": 36.0}
        | {"measured": None, "ci95": None, "size_agrees": None, "why": "not measured here"},
    ]
    table = published_table(whole("paper") | {"published": found})
    assert table is not None
    assert [row[-1] for row in table.rows] == ["yes", "no", "–"]
    assert table.rows[0][:4] == ["loss damage, angular / magnitude", "1", "42.9", "40.0 [30.0, 50.0]"]
    assert table.rows[1][:4] == ["norm repair, angular", "5", "13.7 %", "20.0 % [18.0, 22.0]"]
    assert table.rows[2][:3] == ["accuracy drop, magnitude", "15", "36.0"]
    page = render_page(whole("paper") | {"published": found}, manifest())
    assert "Published numbers (pythia-410m) beside these" in page
    assert published_table(whole()) is None
