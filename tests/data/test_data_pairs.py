"""Reading minimal pairs: BLiMP's format and the plain one, several SPECs, and every way a pair can be wrong."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from polarlens.data import read_pairs
from polarlens.errors import UsageError

Write = Callable[[str, str | bytes], str]


def test_blimps_format_and_the_plain_one_may_be_mixed(write: Write) -> None:
    rows = [
        {"sentence_good": " A b. ", "sentence_bad": "A c.", "UID": "u", "field": "syntax", "pairID": 0},
        {"good": "D e.", "bad": "D f.", "phenomenon": "p", "cluster": "k", "UID": "not BLiMP's"},
        {"sentence_good": "G h.", "sentence_bad": "G i.", "UID": "u", "phenomenon": "own", "good": "unused"},
    ]
    dataset = read_pairs([write("a.jsonl", "\n\n".join(map(json.dumps, rows)))])
    assert dataset.kind == "pairs"
    assert [(pair.good, pair.bad, pair.phenomenon, pair.line) for pair in dataset.items] == [
        ("A b.", "A c.", "u", 1),
        ("D e.", "D f.", "p", 3),
        ("G h.", "G i.", "own", 5),
    ]
    assert dataset.items[1].cluster == "k"
    assert dataset.sources[0]["skipped"] == {"blank": 2}


@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("tsv", "\t")])
def test_tables(write: Write, suffix: str, separator: str) -> None:
    rows = [["UID", "sentence_bad", "sentence_good"], ["u", '"A, or\n""c""."', "A b."], ["", "D f.", "D e."]]
    dataset = read_pairs([write(f"a.{suffix}", "\n".join(map(separator.join, rows)))])
    assert [(pair.good, pair.bad, pair.phenomenon, pair.line) for pair in dataset.items] == [
        ("A b.", 'A, or\n"c".', "u", 2),
        ("D e.", "D f.", None, 4),
    ]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"good": "A.", "bad": "A."}', "'good' and 'bad' are the same sentence ('A.')"),
        ('{"good": "A.", "bad": " A. "}', "the same sentence"),
        ('{"sentence_good": "A.", "sentence_bad": "A."}', "'sentence_good' and 'sentence_bad' are the same sentence"),
        ('{"good": "A.", "bad": ""}', "'bad' is empty"),
        ('{"good": " ", "bad": "A."}', "'good' is empty"),
        ('{"sentence_good": "\\n", "sentence_bad": "A."}', "'sentence_good' is empty"),
        ('{"good": "A."}', "no field 'bad'; found: 'good'"),
        ('{"sentence_bad": "A."}', "no field 'sentence_good'; found: 'sentence_bad'"),
        ('{"sentence_good": "A.", "bad": "B."}', "no field 'sentence_bad'"),
        ('{"text": "A."}', "no field 'good'; found: 'text'"),
        ('{"good": 1, "bad": "A."}', "'good' is 1, not a string"),
        ('{"sentence_good": "A.", "sentence_bad": "B.", "UID": 4}', "'UID' is 4, not a string"),
        ('{"good": "A.", "bad": "B.", "cluster": []}', "'cluster' is [], not a string"),
        ('{"good": "A.", "bad": "B.", "positions": [[0, 1]]}', "'positions' are for texts"),
        ('{"good": "A.", "bad": "\\udfff"}', "half of a surrogate pair"),
    ],
)
def test_bad_pairs(write: Write, line: str, what: str) -> None:
    path = write("a.jsonl", f'\n{{"good": "Fine.", "bad": "Not."}}\n{line}\n')
    with pytest.raises(UsageError) as caught:
        read_pairs([path])
    assert caught.value.where == f"{path}, line 3"
    assert what in caught.value.what
    assert caught.value.fix


@pytest.mark.parametrize("suffix", ["txt", "conllu"])
def test_files_that_hold_no_pairs(write: Write, suffix: str) -> None:
    with pytest.raises(UsageError, match=rf"a \.{suffix} file holds no minimal pairs\. .*\.jsonl, \.tsv, \.csv"):
        read_pairs([write(f"a.{suffix}", "# text = A.\n")])


def test_several_specs_keep_their_order_and_each_has_its_limit_and_its_repeats(write: Write) -> None:
    lines = ['{"good": "A.", "bad": "B."}', '{"good": "C.", "bad": "D."}', '{"good": "A.", "bad": "B."}']
    first, second = write("a.jsonl", "\n".join(lines)), write("b.jsonl", "\n".join(lines[::-1]))
    dataset = read_pairs([second, first], limit=2)
    assert [(pair.good, pair.dataset) for pair in dataset.items] == [
        ("A.", "b.jsonl"),
        ("C.", "b.jsonl"),
        ("A.", "a.jsonl"),
        ("C.", "a.jsonl"),
    ]
    assert [source["spec"] for source in dataset.sources] == [second, first]
    assert [source["skipped"] for source in dataset.sources] == [{"limit": 1}] * 2
    names = [pair.item for pair in read_pairs([first, second]).items]
    assert names[2] == f"{names[0]}-1"
    assert names[3:] == names[:3]


def test_no_spec_and_one_given_twice(write: Write) -> None:
    path = write("a.jsonl", '{"good": "A.", "bad": "B."}')
    with pytest.raises(UsageError, match="no minimal pairs named"):
        read_pairs([])
    with pytest.raises(UsageError, match=r"2 sets are called a\.jsonl"):
        read_pairs([path, path])
    (Path(path).parent / "other").mkdir()
    with pytest.raises(UsageError, match=r"2 sets are called a\.jsonl"):
        read_pairs([path, write("other/a.jsonl", '{"good": "C.", "bad": "D."}')])


def test_a_file_keeps_its_name_when_it_moves(write: Write) -> None:
    path = write("a.jsonl", '{"good": "A.", "bad": "B."}')
    (before,) = read_pairs([path]).items
    (Path(path).parent / "moved").mkdir()
    (after,) = read_pairs([str(Path(path).rename(Path(path).parent / "moved" / "a.jsonl"))]).items
    assert before == after


def test_an_empty_file_among_several(write: Write) -> None:
    path, empty = write("a.jsonl", '{"good": "A.", "bad": "B."}'), write("b.jsonl", "\n\n")
    with pytest.raises(UsageError, match=r"b\.jsonl: only blank lines"):
        read_pairs([path, empty])


def test_blimp(shared_data: Path) -> None:
    paths = sorted((shared_data / "blimp").glob("*agreement*.jsonl"))
    dataset = read_pairs([str(path) for path in paths])
    assert len(paths) == 6
    assert [(source["rows"], source["items"], source["skipped"]) for source in dataset.sources] == [
        (1000, 1000, {})
    ] * 6
    for path, pair in zip(paths, dataset.items[::1000], strict=True):
        assert pair.phenomenon == path.stem
        assert pair.line == 1
    regular = read_pairs([str(shared_data / "blimp" / "regular_plural_subject_verb_agreement_1.jsonl")], limit=100)
    assert len(regular.items) == 100
    assert (regular.items[0].good, regular.items[0].bad) == ("Paula references Robert.", "Paula reference Robert.")
