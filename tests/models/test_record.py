"""The record of verified families is whole, up to date, and told to users."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers

import record_families
from polarlens.models import check
from polarlens.models import families as records
from polarlens.models.language_model import LanguageModel
from polarlens.models.verified import record, verified
from tiny import FAMILIES, tiny

LAYOUTS = record()["layouts"]


def test_every_family_of_the_table_is_recorded() -> None:
    assert list(LAYOUTS) == FAMILIES
    assert {one["family"] for one in LAYOUTS.values()} == set(records.FAMILIES)
    layouts = sum(len(found) for found in records.FAMILIES.values())
    assert len({(one["family"], one["wiring"]) for one in LAYOUTS.values()}) >= layouts


def test_the_versions_are_the_pinned_ones() -> None:
    pins = dict(
        re.findall(r"^(torch|transformers)==(.+)$", (record_families.ROOT / "constraints.txt").read_text(), re.M)
    )
    assert record()["versions"] == pins, "run tests/record_families.py with the pinned versions"


def test_what_is_recorded_holds() -> None:
    for one in LAYOUTS.values():
        assert one["record"]
        assert one["sites"]["block output"]["available"]
        for site in one["sites"].values():
            assert (site["error"] is None) if not site["available"] else site["error"] <= 1e-5


@pytest.mark.parametrize("name", FAMILIES)
def test_the_record_is_what_verification_finds(name: str) -> None:
    installed = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    if installed != record()["versions"]:
        pytest.skip(f"the record is about {record()['versions']}, and installed are {installed}")

    def without_errors(layout: dict) -> dict:
        """Roundings differ between processors."""
        sites = {site: found | {"error": found["error"] is None} for site, found in layout["sites"].items()}
        return layout | {"sites": sites}

    found = record_families.layout(name)
    assert without_errors(found) == without_errors(LAYOUTS[name])
    total = found["sites"]["mlp contribution"]["error"]
    assert total <= 1e-12


def test_the_page_is_that_of_the_record() -> None:
    assert record_families.PAGE.read_text("utf-8") == record_families.page(json.loads(json.dumps(record())))


@pytest.mark.parametrize(("error", "power"), [(0.0, 1e-16), (3e-15, 1e-14), (1e-7, 1e-7), (None, None)])
def test_errors_are_rounded_up(error: float | None, power: float | None) -> None:
    assert record_families.decade(error) == power


def test_check_says_what_was_verified() -> None:
    report = check(LanguageModel(tiny("stablelm-parallel"), name="m"))
    assert report.as_dict()["verified"] == {"layouts": ("stablelm-parallel",), **record()["versions"]}
    versions = record()["versions"]
    line = f"as stablelm-parallel with torch {versions['torch']} and transformers {versions['transformers']}"
    assert line in str(report)


def test_layouts_that_are_not_in_the_record() -> None:
    lm = LanguageModel(tiny("llama"), name="m")
    assert verified(replace(lm.anatomy, family="something_new")) is None
    assert verified(replace(lm.anatomy, wiring="parallel")) is None
    lm.anatomy = replace(lm.anatomy, norm_kind="unknown")
    report = check(lm)
    assert report.as_dict()["verified"] is None
    assert "not in the record of verified families" in str(report)


def test_the_record_is_shipped() -> None:
    assert "models/verified.json" in (Path(record_families.ROOT) / "pyproject.toml").read_text("utf-8")
