"""Reading passages: every format, every way a file can be wrong, the filter and the limit."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from polarlens.data import Dataset, Text, read_pairs, read_texts, read_trees
from polarlens.data.filters import notebook
from polarlens.errors import UsageError

Write = Callable[[str, str | bytes], str]


def texts(dataset: Dataset[Text]) -> list[str]:
    return [item.text for item in dataset.items]


def test_one_passage_a_line_blank_lines_counted_crlf_and_bom_dropped(write: Write) -> None:
    content = b"\xef\xbb\xbf  First one. \r\n\r\n \t\r\nSecond one.\nThird, no newline after it."
    dataset = read_texts(write("a.txt", content))
    assert texts(dataset) == ["First one.", "Second one.", "Third, no newline after it."]
    assert [item.line for item in dataset.items] == [1, 4, 5]
    (source,) = dataset.sources
    assert source["sha256"] == hashlib.sha256(content).hexdigest()
    assert (source["rows"], source["items"], source["skipped"]) == (5, 3, {"blank": 2})


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x0c", "\x0b", "\x85", "\x1c", "\x1e", "\r"])
def test_only_a_newline_ends_a_line(write: Write, inside: str) -> None:
    assert texts(read_texts(write("a.txt", f"left{inside}right\n"))) == [f"left{inside}right"]
    record = json.dumps({"text": f"left{inside}right"}, ensure_ascii=inside == "\r")
    if inside > "\x1f" or inside == "\r":  # JSON itself forbids raw control characters in a string
        assert texts(read_texts(write("a.jsonl", record + "\n"))) == [f"left{inside}right"]
    assert texts(read_texts(write("a.csv", f'text\n"left{inside}right"\n'))) == [f"left{inside}right"]


def test_a_second_byte_order_mark_is_text(write: Write) -> None:
    assert texts(read_texts(write("a.txt", "\ufeff\ufeffa\n\ufeffb\n"))) == ["\ufeffa", "\ufeffb"]


def test_a_very_long_line(write: Write) -> None:
    passage = "word " * 2_000_000 + "end."
    for name, content in [
        ("a.txt", passage),
        ("a.jsonl", json.dumps({"text": passage})),
        ("a.csv", f'text\n"{passage}"\n'),
    ]:
        assert texts(read_texts(write(name, content))) == [passage]


@pytest.mark.parametrize(
    ("content", "place", "what"),
    [
        (b"fine\nfine\nbad \xff here\n", "line 3", "byte offset 14 (0xff"),
        (b"\xef\xbb\xbffine\ncut \xe2\x82", "line 2", "byte offset 12 (0xe2"),
        ("fine\n".encode("utf-16"), "line 1", "byte offset 0 (0xff"),
        (b"fine\nfine\nnul \0 here\n", "line 3", "NUL"),
        (b"", "", "empty"),
        (b"\xef\xbb\xbf", "", "empty"),
        (b"\n \r\n\t\n", "", "only blank lines"),
    ],
)
def test_unreadable_bytes(write: Write, content: bytes, place: str, what: str) -> None:
    path = write("a.txt", content)
    with pytest.raises(UsageError) as caught:
        read_texts(path)
    assert caught.value.where == (f"{path}, {place}" if place else path)
    assert what in caught.value.what
    assert caught.value.fix


def test_what_is_no_readable_file(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    for spec, what in [
        (str(tmp_path), "a folder"),
        (str(tmp_path / "none.txt"), "no such file"),
        (write("a.txt", "x") + "/b.txt", "cannot be read"),
        (str(tmp_path / "a\0b.txt"), "cannot be read"),
        (str(tmp_path / ("x" * 300 + ".txt")), "cannot be read"),
        ("", "a folder"),
    ]:
        with pytest.raises(UsageError, match=what):
            read_texts(spec)

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UsageError, match=r"cannot be read \(Permission denied\)"):
        read_texts(str(tmp_path / "a.txt"))


def test_an_unknown_kind_of_file_lists_the_known(write: Write) -> None:
    with pytest.raises(UsageError, match=r"unknown kind of file '\.parquet'.*\.txt, \.jsonl, \.tsv, \.csv, \.conllu"):
        read_texts(write("a.parquet", "x"))


def test_bundled_is_the_sample_that_comes_with_the_package() -> None:
    assert len(read_texts("bundled").items) == 500
    assert len(read_pairs(["bundled"]).items) == 1_000
    assert len(read_trees(["bundled"]).items) == 500
    assert {item.dataset for item in read_texts("bundled").items} == {"bundled"}


def test_a_file_whose_name_looks_like_a_spec(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("hub:a.txt", "One.")
    write("bundled.TXT", "Two.")
    monkeypatch.chdir(tmp_path)
    assert texts(read_texts("./hub:a.txt")) == ["One."]
    assert texts(read_texts("bundled.TXT")) == ["Two."]


def test_json_lines_with_all_fields(write: Write) -> None:
    first = {"text": "The cats sleep.", "positions": [[9, 14], [4, 8], [4, 8]], "cluster": "sleep", "phenomenon": "sv"}
    second = {"text": "Plain.", "positions": None, "cluster": None, "phenomenon": " ", "anything": [1.5, {"a": True}]}
    lines = [json.dumps(first), " ", json.dumps(second) + "\r", json.dumps({"text": "  "})]
    dataset = read_texts(write("a.jsonl", "\n".join(lines)))
    one, two = dataset.items
    assert (one.text, one.positions, one.cluster, one.phenomenon, one.line) == (
        "The cats sleep.",
        ((4, 8), (9, 14)),
        "sleep",
        "sv",
        1,
    )
    assert (two.text, two.positions, two.cluster, two.phenomenon, two.line) == ("Plain.", None, two.item, None, 3)
    assert dataset.sources[0]["skipped"] == {"blank": 2}


@pytest.mark.parametrize(
    ("raw", "given", "read"),
    [
        ("  The cat", [[2, 5], [6, 9]], ["The", "cat"]),
        ("\tThe cat \n", [[0, 5], [5, 10]], ["The ", "cat"]),
        (" 😀é x ", [[1, 2], [2, 3]], ["😀", "é"]),
    ],
)
def test_positions_refer_to_the_text_as_it_stands_in_the_file(
    write: Write, raw: str, given: list[list[int]], read: list[str]
) -> None:
    (item,) = read_texts(write("a.jsonl", json.dumps({"text": raw, "positions": given}))).items
    assert item.positions is not None
    assert [item.text[start:end] for start, end in item.positions] == read


@pytest.mark.parametrize(
    "positions",
    [
        *("[]", "{}", "3", '"0-1"', "[0, 1]", "[[]]", "[[0]]", "[[0, 1, 2]]", "[[0, 1]], []"),
        *("[[0, 1.0]]", "[[true, 2]]", "[[null, 1]]", "[[0, 1e400]]"),
        *("[[1, 1]]", "[[2, 1]]", "[[-1, 2]]", "[[0, 6]]", "[[0, 1], [4, 6]]", "[[3, 5]]"),
    ],
)
def test_positions_that_are_no_spans_of_the_text(write: Write, positions: str) -> None:
    path = write("a.jsonl", f'{{"text": "a"}}\n{{"text": "abc  ", "positions": {positions}}}')
    with pytest.raises(UsageError, match=r"position|JSON") as caught:
        read_texts(path)
    assert caught.value.where == f"{path}, line 2"
    with pytest.raises(UsageError, match=r"position|JSON|cells") as caught:
        read_texts(write("a.tsv", f"text\tpositions\na\t\nabc  \t{positions}\n"))
    assert str(caught.value.where).endswith("line 3")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "not valid JSON"),
        ("plain text", "not valid JSON (Expecting value, column 1)"),
        ('{"text": "a"} {"text": "b"}', "Extra data"),
        ("[", "not valid JSON"),
        ('["a"]', "not a JSON object"),
        ('"a"', "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"text": NaN}', "NaN is not a JSON value"),
        ('{"text": "a", "score": -Infinity}', "-Infinity is not a JSON value"),
        ('{"text": "a", "text": "b"}', "the key 'text' stands twice"),
        ('{"text": "a", "x": {"k": 1, "k": 2}}', "the key 'k' stands twice"),
        ('{"text": "a", "x": %s}' % ("[" * 100_000), "nested too deeply"),
        ('{"text": "a", "x": %s}' % ("9" * 5000), "not valid JSON"),
        ('{"sentence_good": "a", "sentence_bad": "b"}', "no field 'text'; found: 'sentence_good', 'sentence_bad'"),
        ("{}", "no field 'text'; found: nothing"),
        ('{"text": null}', "'text' is None, not a string"),
        ('{"text": 3}', "'text' is 3, not a string"),
        ('{"text": ["a"]}', "'text' is ['a'], not a string"),
        ('{"text": "a", "cluster": 7}', "'cluster' is 7, not a string"),
        ('{"text": "a", "phenomenon": ["p"]}', "'phenomenon' is ['p'], not a string"),
        ('{"text": "a\\ud800"}', "half of a surrogate pair"),
        ('{"text": "a", "cluster": "\\udc00"}', "half of a surrogate pair"),
        ('{"text": "a\\u0000b"}', "NUL"),
        ('{"text": "a", "phenomenon": "\\u0000"}', "NUL"),
    ],
)
def test_bad_json_lines(write: Write, line: str, what: str) -> None:
    path = write("a.jsonl", f'{{"text": "fine"}}\n\n{line}\n{{"text": "fine"}}\n')
    with pytest.raises(UsageError) as caught:
        read_texts(path)
    assert caught.value.where == f"{path}, line 3"
    assert what in caught.value.what
    assert caught.value.fix
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("tsv", "\t")])
def test_tables_with_quoting_and_lines_counted_through_it(write: Write, suffix: str, separator: str) -> None:
    rows = [
        ["cluster", " text ", "positions", "note"],
        ["v", '"He said ""no"", twice.\r\nAnd left."', '"[[0, 2], [3, 7]]"', "x"],
        ["", "Simple.", "", ""],
        ["", '""', "", ""],
    ]
    content = "\ufeff" + "\r\n".join(
        [*(separator.join(row) for row in rows), "", separator.join(["", "Last.", "", ""])]
    )
    dataset = read_texts(write(f"a.{suffix}", content))
    assert texts(dataset) == ['He said "no", twice.\r\nAnd left.', "Simple.", "Last."]
    assert [item.line for item in dataset.items] == [2, 4, 7]
    assert [item.positions for item in dataset.items] == [((0, 2), (3, 7)), None, None]
    assert [item.cluster for item in dataset.items] == ["v", dataset.items[1].item, dataset.items[2].item]
    assert (dataset.sources[0]["rows"], dataset.sources[0]["skipped"]) == (5, {"blank": 2})


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        ("sentence,label\nA b.,1\n", 2, "no field 'text'; found: 'sentence', 'label'"),
        ("text,text\na,b\n", 1, "named twice"),
        ('text,cluster\n"a\nb",c\nd\n', 4, "1 cells where the header names 2"),
        ("text\na,b\n", 2, "2 cells where the header names 1"),
        ('text\na\n"never\nclosed\n', 3, "not a valid table"),
        ('text\n"a" b\n', 2, "not a valid table"),
        ("text\na\rb\n", 2, "not a valid table"),
        ('text,positions\nabc,"[[0, NaN]]"\n', 2, "NaN is not a JSON value"),
        ("text,positions\nabc,0-1\n", 2, "not valid JSON"),
    ],
)
def test_bad_tables(write: Write, content: str, line: int, what: str) -> None:
    path = write("a.csv", content)
    with pytest.raises(UsageError) as caught:
        read_texts(path)
    assert caught.value.where == f"{path}, line {line}"
    assert what in caught.value.what


@pytest.mark.parametrize(("content", "what"), [("", "empty"), ("text\n", "empty"), ("text\n\n \n", "only blank lines")])
def test_tables_without_rows(write: Write, content: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        read_texts(write("a.csv", content))


def test_the_limit_of_the_csv_module_is_left_alone(write: Write) -> None:
    import csv

    before = csv.field_size_limit()
    read_texts(write("a.csv", "text\na\n"))
    with pytest.raises(UsageError):
        read_texts(write("a.csv", 'text\n"a\n'))
    assert csv.field_size_limit() == before


def test_treebank_sentences_as_texts(write: Write) -> None:
    content = (
        "# newdoc id = d\n# sent_id = 1\n# text = The cat = here.\n# text_en = no\n1\tThe\t_\n\n"
        "#text=Second.\n1\tSecond\t_\n\n\n# text = \n1\t_\t_\n"
    )
    dataset = read_texts(write("a.conllu", content))
    assert texts(dataset) == ["The cat = here.", "Second."]
    assert [item.line for item in dataset.items] == [3, 7]
    assert (dataset.sources[0]["rows"], dataset.sources[0]["skipped"]) == (3, {"blank": 1})


def test_a_treebank_sentence_without_text(write: Write) -> None:
    path = write("a.conllu", "# text = A.\n1\tA\n\n# sent_id = 2\n1\tB\n")
    with pytest.raises(UsageError, match="without a '# text =' comment") as caught:
        read_texts(path)
    assert caught.value.where == f"{path}, line 5"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x" * 29 + ".", False),
        ("x" * 30 + ".", True),
        ("x" * 298 + ".", True),
        ("x" * 299 + ".", False),
        ("x" * 31, False),
        ("= " + "x" * 40 + ". =", False),
        ("x" * 20 + ". " + "=" * 20, True),
    ],
)
def test_the_notebooks_filter_at_its_edges(text: str, kept: bool) -> None:
    assert notebook(text) is kept


def test_filter_then_repeats_then_limit(write: Write) -> None:
    good, other = "x" * 40 + ".", "y" * 40 + "."
    path = write("a.txt", "\n".join([good, "short.", "", f"   {good}", other, good, other]))
    dataset = read_texts(path, text_filter="notebook", limit=3)
    assert texts(dataset) == [good, good, other]
    assert dataset.items[1].item == f"{dataset.items[0].item}-1"
    (source,) = dataset.sources
    assert (source["rows"], source["items"]) == (7, 3)
    assert source["skipped"] == {"text filter": 1, "blank": 1, "limit": 2}


def test_what_lies_beyond_the_limit_is_still_checked(write: Write) -> None:
    with pytest.raises(UsageError, match="line 2"):
        read_texts(write("a.jsonl", '{"text": "a"}\n{"text": 1}\n'), limit=1)


def test_a_filter_that_leaves_nothing_and_options_that_cannot_be(write: Write) -> None:
    path = write("a.txt", "short.\n\nshorter\n")
    with pytest.raises(UsageError, match="none of 2 passages passes the text filter"):
        read_texts(path, text_filter="notebook")
    with pytest.raises(UsageError, match=r"no text filter 'prose'\. Choose one of: none, notebook"):
        read_texts(path, text_filter="prose")
    for limit in (0, -1):
        with pytest.raises(UsageError, match="--limit"):
            read_texts(path, limit=limit)


@pytest.mark.parametrize(("name", "rows", "blank", "kept"), [("valid", 3760, 1299, 311), ("test", 4358, 1467, 296)])
def test_wikitext_2(shared_data: Path, name: str, rows: int, blank: int, kept: int) -> None:
    """Line counts by `wc -l` and `grep -c`; `kept` by `sed` and `grep -P` in UTF-8."""
    path = str(shared_data / "wikitext2" / f"{name}.txt")
    (source,) = read_texts(path).sources
    assert (source["rows"], source["items"], source["skipped"]) == (rows, rows - blank, {"blank": blank})
    assert len(read_texts(path, text_filter="notebook").items) == kept


def test_english_ewt_as_text(shared_data: Path) -> None:
    dataset = read_texts(str(shared_data / "ud" / "en_ewt-ud-test.conllu"))
    assert len(dataset.items) == 2077
    assert dataset.items[0].text == "What if Google Morphed Into GoogleOS?"
