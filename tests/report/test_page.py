import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from made_up import KINDS, manifest, summary

from polarlens.report import page as page_module
from polarlens.report import sentence, write_report
from polarlens.report.page import render_page
from polarlens.statistics.contrasts import UNUSABLE

VOID = {"meta", "br", "img", "link", "input", "hr"}
HOSTILE = "</title><script>alert('1')</script>\"'&{{ 7 * 7 }}{% raw %}]]>"


class Page(HTMLParser):
    """Tags, attributes and text; fails where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.styles: list[str] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        {"style": self.styles, "script": self.scripts}.get(inside, self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages whose figure does not matter are made without it: drawing takes most of the time."""
    monkeypatch.setattr(page_module, "_pictures", lambda summary: {})


@pytest.fixture(scope="module")
def hostile() -> str:
    document = summary(
        model=HOSTILE, warnings=[HOSTILE], skipped=[{"experiment": "x", "what": HOSTILE, "why": HOSTILE}]
    )
    document["policies"] = {**document["policies"], HOSTILE: {HOSTILE: HOSTILE, "across_members": HOSTILE}}
    for cell in document["cells"]:
        if cell["policy_id"] == "matched-common":
            cell["policy_id"] = HOSTILE
    for claim in document["claims"]:
        claim.update(why=HOSTILE)
    source = {"spec": HOSTILE, "rows": 1, "items": 1, "skipped": {HOSTILE: 1}, "sha256": HOSTILE}
    return render_page(document, manifest(command=HOSTILE, data={"loss": {"sources": [source]}}))


def external(page: Page) -> list[object]:
    """Whatever a browser would fetch."""
    found: list[object] = [
        attribute
        for attribute in page.attributes
        if attribute[1] in ("src", "srcset", "data", "action", "poster", "href", "xlink:href")
        or re.search(r"url\(\s*['\"]?(?!#)", attribute[2])
        or ("//" in attribute[2] and not attribute[1].startswith("xmlns") and attribute[1] != "aria-label")
    ]
    # an address that holds its data is not fetched
    found = [one for one in found if not (one[1] == "href" and one[2].startswith("data:"))]  # type: ignore[index]
    return found + [style for style in page.styles if re.search(r"url\(|@import|//", style)]


def test_the_page_fetches_nothing_and_runs_only_its_own_library() -> None:
    page = Page(render_page(summary(), manifest()))
    assert external(page) == []
    assert not {"link", "iframe", "object", "embed", "img", "base", "form"} & set(page.tags)
    assert page.tags.count("script") == 3  # the library, the specifications, and the line that draws them
    specs = json.loads(page.scripts[1])
    assert specs
    assert '"url"' not in json.dumps(specs)  # the data are in the specifications
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert page.tags.count("svg") == 2
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_hostile_strings_are_text(hostile: str) -> None:
    page = Page(hostile)
    assert page.tags.count("script") == 3
    assert "alert('1')" not in page.scripts[0] + page.scripts[2]
    assert "<" not in page.scripts[1]  # nothing in the specifications can end their element
    assert external(page) == []
    assert page.words.count(HOSTILE) >= 5  # title, heading, warning, policy, command
    assert "49" not in "".join(word for word in page.words if "7" in word and "{{" in word)
    assert "<script>alert" not in hostile


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intervals", [True, False])
def test_every_kind_of_verdict(kind: str, intervals: bool) -> None:
    document = summary(kind, intervals=intervals)
    page = Page(render_page(document, manifest()))
    assert sentence(document) in page.text
    assert kind.replace("_", " ") in page.text
    assert "None" not in page.text


@pytest.mark.usefixtures("no_pictures")
def test_the_page_holds_the_numbers() -> None:
    document = summary(warnings=["beware of this"], skipped=[{"experiment": "r", "what": "repair", "why": "not asked"}])
    text = Page(render_page(document, manifest())).text
    for part in (
        "0.0413 [0.0372, 0.0454]",  # loss, magnitude, delta 0.1
        "0.196 [0.157, 0.235]",  # its difference
        "5.74 [4.59, 6.89]",  # and ratio
        "28.6 [25.8, 31.5]",  # pairs, independent noise, magnitude, delta 0.5
        "loss 3.46 [3.40, 3.51] nats per token (40 texts, 1,234 tokens)",
        "replicates, size differs",
        "plane: magnitude orthogonal, angular covariance",
        "beware of this",
        "repair: not asked",
        "polarlens run owner/name --text texts.txt",
        "40 of 42 rows (blank: 2); sha256 c0ffee",
        "beef01",
        "46,176 parameters, 3 blocks of width 32",
        "torch 2.13.0",
        "12.5 %",
        "0.012",
        "600 s of work",
        "3 MiB",
    ):
        assert part in text


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda: summary("inconclusive", tasks=()), "nothing was measured"),
        (lambda: summary(complete=False, missing_units=3), "3 units of work are missing"),
        (lambda: summary(layers=("0", "1")), "crossed blocks 0, 1"),
        (lambda: summary(positions=("all", "no-sinks")), "Damages, positions no-sinks"),
    ],
)
def test_what_is_said_beside_the_numbers(change: Callable[[], dict[str, Any]], part: str) -> None:
    assert part in Page(render_page(change(), manifest())).text


@pytest.mark.usefixtures("no_pictures")
def test_a_run_from_python_has_no_command() -> None:
    assert "Started from Python" in Page(render_page(summary(), manifest(command=None))).text


def test_a_report_is_whole_and_names_the_delta_mode(tmp_path: Path) -> None:
    write_report(tmp_path, summary(tasks=["loss"]), manifest())
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {"report.html", *(f"figures/dissociation.{end}" for end in ("svg", "png", "csv"))}
    page = Page((tmp_path / "report.html").read_text("utf-8"))
    assert "Delta: relative displacement (fraction of the norm)" in page.text
    assert "relative displacement" in (tmp_path / "figures/dissociation.svg").read_text("utf-8")


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("missing", [*manifest(), "all"])
def test_what_the_manifest_lacks_is_left_out(missing: str) -> None:
    kept = {key: value for key, value in manifest().items() if missing not in (key, "all")}
    text = Page(render_page(summary(), kept)).text
    assert "None" not in text
    assert ("beef01" in text) == ("model" in kept)
    assert ("sha256 c0ffee" in text) == ("data" in kept)
    assert ("torch 2.13.0" in text) == ("versions" in kept)


@pytest.mark.usefixtures("no_pictures")
def test_a_source_from_the_hub_is_known_by_its_revision() -> None:
    source = {"spec": "hub:a/b:c:test", "revision": "f00d"}
    assert (
        "loss: hub:a/b:c:test revision f00d"
        in Page(render_page(summary(), manifest(data={"loss": {"sources": [source]}})).replace("</dt>", "</dt> ")).text
    )


@pytest.mark.usefixtures("no_pictures")
def test_what_a_number_cannot_be_trusted_for_stands_by_it() -> None:
    document = summary(model="/models/name.gguf")
    for one in (*document["cells"], *document["contrasts"]):
        if one["task"] == "pairs":
            one["n_clusters"] = 12
            if one["delta"] == 0.5:
                one["why"] = UNUSABLE
    page = Page(render_page(document, manifest()))
    assert "Minimal pairs: only 12 pairs, or groups of pairs, stand behind an interval" in page.text
    assert "Next-token loss: only" not in page.text
    assert page.text.count("0.5 *") == 4  # damages and contrasts, under both noises
    assert "* not usable: both arms are at the floor of the task" in page.text
    assert page.text.startswith("name.gguf: crossed")
    assert "/models/name.gguf" not in page.text


def test_each_picture_has_words_beside_it() -> None:
    page = Page(render_page(summary(), manifest()))
    words = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    assert [text.split(":")[0] for text in words] == ["Next-token loss", "Minimal pairs"]
