"""The page, the figure and the terminal text of a comparison."""

import csv
from pathlib import Path
from typing import Any

import pytest
from made_up_compare import document
from test_page import HOSTILE, Page, external

from polarlens.errors import UsageError
from polarlens.report import COMPARE_FIGURES, render_compare, write_compare
from polarlens.report import compare_page as page_module
from polarlens.report.compare_page import render_compare_page


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "_pictures", lambda document: [])


def replaced(value: Any, old: str, new: str) -> Any:
    """Every string that is `old` as `new`, in keys and values."""
    if isinstance(value, dict):
        return {replaced(k, old, new): replaced(v, old, new) for k, v in value.items()}
    if isinstance(value, list):
        return [replaced(one, old, new) for one in value]
    return new if value == old else value


def test_the_page_fetches_nothing_and_runs_nothing() -> None:
    page = Page(render_compare_page(document()))
    assert external(page) == []
    assert not {"script", "link", "iframe", "object", "embed", "img", "base", "form"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert page.tags.count("svg") == 2
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_hostile_strings_are_text() -> None:
    hostile = document()
    for old in ("org/one", "beware of this", "it follows the norm", "runs/0", "/models/0", "llama", "matched-common"):
        hostile = replaced(hostile, old, HOSTILE)
    for run in hostile["runs"]:
        run["verdict"]["why"] = HOSTILE
    text = render_compare_page(hostile)
    page = Page(text)
    assert "script" not in page.tags
    assert "<script" not in text
    assert external(page) == []
    assert HOSTILE in page.words
    assert all(c == "\n" or c.isprintable() for c in render_compare(replaced(hostile, HOSTILE, "a\x1b[31m")))


@pytest.mark.usefixtures("no_pictures")
def test_the_page_holds_the_numbers_and_groups_by_norm() -> None:
    made = document(("later", "org/one", "third"), positions=("all", "no-sinks"))
    made["runs"][0]["norm_kind"], made["runs"][1]["norm_kind"] = "rmsnorm", "layernorm"
    text = Page(render_compare_page(made)).text
    heads = [text.index(name) for name in ("LayerNorm", "RMSNorm", "norm kind unknown")]
    assert heads == sorted(heads)
    table = text[text.index("Models Size") :]
    assert table.index("org/one") < table.index("later") < table.index("third")
    for part in (
        "Verdict crossed in later; reversed in org/one; none in third.",
        "at delta 0.1 direction costs 7.31 against 1.27 times the loss that magnitude costs, a ratio of 0.400",
        "(they differ, p 0.032)",
        "a difference of 1.0 [0.9, 1.1]",
        "31 shared texts, paired",
        "31 and 31 pairs, independent samples",
        "0.300 [0.270, 0.330]",  # loss, magnitude arm, delta 0.1
        "0.5 *",
        "not usable: in one of the models both arms are at the floor",
        "beware of this",
        "it follows the norm",
        "1 M",
        "0-1 of 3",
        "3.46 [3.40, 3.51]",
        "replicates",
        "runs/0; model /models/0; crossed: crossed because",
        "6.81",  # median norm
        "90 more contrasts, at other positions",
    ):
        assert part.replace(", ", ",\u00a0") in text.replace(", ", ",\u00a0"), part
    assert "None" not in text


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    "made",
    [
        document(defined=False),
        document(intervals=False),
        document(tasks=("loss",)),
        document(layers=("0", "1", "2")),
        document(delta_mode=None),
    ],
)
def test_what_is_missing_is_left_out(made: dict[str, Any]) -> None:
    made["runs"][0].update(state_profile=None, n_params=None, n_layers=None)
    for text in (Page(render_compare_page(made)).text, render_compare(made)):
        assert "None" not in text
        assert "nan" not in text.split()


def test_the_figure_draws_each_model_with_its_interval(tmp_path: Path) -> None:
    made = document(("org/one", "two.gguf"))
    write_compare(tmp_path, made)
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {"compare.html", *(f"figures/compare-ratio.{end}" for end in ("svg", "png", "csv"))}
    with (tmp_path / "figures/compare-ratio.csv").open() as file:
        rows = list(csv.DictReader(file))
    at = {(row["model"], row["task"], row["delta"]): row for row in rows}
    assert len(at) == len(rows) == 2 * 2 * 3
    ratio = at["org/one", "loss", "0.1"]
    assert float(ratio["value"]) == pytest.approx(2.371 / 0.413)
    assert float(ratio["ci95_low"]) == pytest.approx(0.8 * 2.371 / 0.413)
    assert at["org/one", "pairs", "0.1"]["pair_policy"] == "independent"
    drawn = (tmp_path / "figures/compare-ratio.svg").read_text("utf-8")
    for part in ("org/one (LayerNorm)", "two.gguf (RMSNorm)", "relative displacement", "#0072B2", "#D55E00"):
        assert part in drawn


def test_undefined_ratios_leave_the_other_panel() -> None:
    made = document(intervals=False)
    assert len(COMPARE_FIGURES["ratio"](made).to_dict()["hconcat"]) == 1
    with pytest.raises(UsageError, match="nothing to draw"):
        COMPARE_FIGURES["ratio"](document(tasks=()))
    assert "<svg" not in render_compare_page(document(tasks=()))


def test_the_terminal_text_fits_and_holds_the_numbers() -> None:
    text = render_compare(document(), Path("runs"))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert max(map(len, text.splitlines())) <= 100
    assert text.isascii()
    assert "org/one LayerNorm 1 M 0-1 crossed + ?" in lines
    assert "two.gguf RMSNorm 2 M 0-1 reversed + ?" in lines
    assert "0.1 0.400 [0.360, 0.440] 0.032 0.100 [0.0900, 0.110] 0.032" in lines
    assert "0.5 * 2.00 [1.80, 2.20] - 0.500 [0.450, 0.550] -" in lines
    assert "C8 replicates: Norms" in lines
    assert "- beware of this" in lines
    assert lines[-1] == "FILES in runs: compare.html, compare.json, figures"


def test_each_picture_has_words_beside_it() -> None:
    page = Page(render_compare_page(document()))
    words = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    assert [text.split(":")[0] for text in words] == ["Next-token loss", "Minimal pairs"]
