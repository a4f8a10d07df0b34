"""Treebanks: a worked example, counts of EWT, what is wrong with a tree by sentence and line, Hub columns."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from polarlens.data import hub, read_texts, read_trees
from polarlens.data.items import identity
from polarlens.data.placing import MultiwordToken, word_spans
from polarlens.data.treebank import read_conllu
from polarlens.english import sentences, write_conllu
from polarlens.errors import UsageError

Write = Callable[[str, str | bytes], str]

EXAMPLE = """\
# sent_id = h12
# text = We can't, she won't.
1	We	we	PRON	_	_	4	nsubj	_	_
2-3	can't	_	_	_	_	_	_	_	SpaceAfter=No
2	ca	can	AUX	_	_	4	aux	_	_
3	n't	not	PART	_	_	4	advmod	_	_
3.1	go	go	VERB	_	_	_	_	_	_
4	,	,	PUNCT	_	_	0	root	_	_
5	she	she	PRON	_	_	4	parataxis	_	_
6-7	won't	_	_	_	_	_	_	_	SpaceAfter=No
6	wo	will	AUX	_	_	5	aux	_	_
7	n't	not	PART	_	_	5	advmod	_	_
8	.	.	PUNCT	_	_	4	punct	_	_

"""


def tree(*words: str, text: str | None = None, sent_id: str = "s-1") -> str:
    """CoNLL-U of words given as `form/UPOS/head`, a space after each."""
    rows = [word.rsplit("/", 2) for word in words]
    said = " ".join(form for form, _, _ in rows) if text is None else text
    lines = [f"{i}\t{form}\t_\t{upos}\t_\t_\t{head}\tdep\t_\t_" for i, (form, upos, head) in enumerate(rows, 1)]
    return "\n".join([f"# sent_id = {sent_id}", f"# text = {said}", *lines, "", ""])


def test_the_worked_example(write: Write) -> None:
    (item,) = read_trees([write("a.conllu", EXAMPLE)]).items
    words = item.words
    assert [w.form for w in words] == ["We", "ca", "n't", ",", "she", "wo", "n't", "."]
    assert [w.upos for w in words] == ["PRON", "AUX", "PART", "PUNCT", "PRON", "AUX", "PART", "PUNCT"]
    assert [w.depth for w in words] == [1, 1, 1, 0, 1, 2, 2, 1]
    assert [w.head for w in words] == [4, 4, 4, 0, 4, 5, 5, 4]
    assert [item.text[slice(*w.span)] for w in words if w.span] == [w.form for w in words]
    assert (item.line, item.sent_id, item.dataset) == (1, "h12", "a.conllu")
    assert item.item == item.cluster == identity("We can't, she won't.")


@pytest.mark.parametrize(
    ("name", "sents", "words", "ranges", "empty", "mean", "deepest", "single"),
    [("dev", 2001, 25147, 359, 4, 2.1810, 10, 100), ("test", 2077, 25094, 354, 2, 2.1856, 12, 151)],
)
def test_english_ewt(
    shared_data: Path,
    name: str,
    sents: int,
    words: int,
    ranges: int,
    empty: int,
    mean: float,
    deepest: int,
    single: int,
) -> None:
    path = shared_data / "ud" / f"en_ewt-ud-{name}.conllu"
    items = read_trees([str(path)]).items
    found = [word for item in items for word in item.words]
    assert (len(items), len(found), sum(len(item.words) == 1 for item in items)) == (sents, words, single)
    assert len({word.upos for word in found}) == 17
    depths = [word.depth for word in found]
    assert (round(sum(depths) / words, 4), max(depths)) == (mean, deepest)
    lines = path.read_text(encoding="utf-8").split("\n")
    assert sum(len(record.fields["mwt"]) for record in read_conllu(lines)) == ranges  # type: ignore[index, arg-type]
    rows = sum(bool(line) and not line.startswith("#") for line in lines)
    assert rows - words - ranges == empty
    # every word of EWT stands in its text as it is written
    assert all(word.span and item.text[slice(*word.span)] == word.form for item in items for word in item.words)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tree("a/X/2", "b/X/3", "c/X/2", "d/X/0"), r"line 4: sentence 's-1': word 2 is in a cycle"),
        (tree("a/X/2", "b/X/1"), r"a.conllu, line 3: sentence 's-1' has no root"),
        (tree("a/X/0", "b/X/3"), r"line 4: sentence 's-1': word 2 has head 3, out of range for 2 words"),
        (
            tree("a/X/0", "b/X/-1"),
            r"line 4: sentence 's-1': word 2 has head -1, out of range|sentence 's-1' is not valid CoNLL-U",
        ),
        (tree("a/X/0", "b/X/_"), r"line 4: sentence 's-1': word 2 has no head"),
        (tree("a/X/0", "b/X/2"), r"line 4: sentence 's-1': word 2 is in a cycle"),
        (tree("a/X/0") + tree("a/X/0", "b/X/3", sent_id="s-2"), r"line 8: sentence 's-2': word 2 has head 3"),
        (tree("a/X/0", "b/X/x"), r"line 3: sentence 's-1' is not valid CoNLL-U"),
        (tree("a/X/0").replace("# text = a\n", ""), r"line 1: sentence 's-1' has no '# text =' comment"),
        (tree("a/X/0", text=" "), r"line 1: sentence 's-1': the text is empty"),
        (tree("a/X/0").replace("\tdep", ""), r"line 3: sentence 's-1': 9 tab-separated columns, not 10"),
        (tree("a/X/0").replace("1\ta", "2\ta"), r"line 3: sentence 's-1': word 2 where word 1 is due"),
        (EXAMPLE.replace("6-7\t", "6-9\t"), r"sentence 'h12': the multiword token '6-9' covers no words"),
        (EXAMPLE.replace("6-7\t", "3-6\t"), r"sentence 'h12': multiword tokens overlap at word 3"),
        ("# sent_id = 1\n# text = Hi\n", r"a.conllu, line 1: no trees"),
        ("\n\n", r"a.conllu, line 1: no trees"),
        ("", r"a.conllu: empty"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(write: Write, content: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_trees([write("a.conllu", content)])


def test_wrong_files_and_options(write: Write, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a \.txt file holds no trees\. Choose one of: \.conllu"):
        read_trees([write("a.txt", "One.\n")])
    with pytest.raises(UsageError, match="unknown kind of file"):
        read_trees([write("a.pdf", "One.\n")])
    with pytest.raises(UsageError, match="no such file"):
        read_trees([str(tmp_path / "none.conllu")])
    with pytest.raises(UsageError, match="--treebank: no trees named"):
        read_trees([])
    path = write("a.conllu", tree("a/X/0"))
    with pytest.raises(UsageError, match=r"2 sets are called a\.conllu"):
        read_trees([path, path])


def test_repeats_limits_and_the_identity_that_a_text_has(write: Write) -> None:
    path = write("a.conllu", tree("a/X/0") + tree("b/X/0") + tree("a/Y/0") + tree("a/X/0"))
    dataset = read_trees([path], limit=3)
    a, b = identity("a"), identity("b")
    assert [item.item for item in dataset.items] == [a, b, f"{a}-1"]
    assert [item.cluster for item in dataset.items] == [a, b, a]
    assert dataset.sources[0]["skipped"] == {"limit": 1}
    assert [item.item for item in read_texts(path, limit=3).items] == [item.item for item in dataset.items]


def test_carriage_returns_spaces_and_missing_tags(write: Write) -> None:
    content = tree("a/_/0", "b c/X/1", text="  a  b c ").replace("\n", "\r\n")
    (item,) = read_trees([write("a.conllu", content)]).items
    assert item.text == "a  b c"
    assert [(w.upos, w.span) for w in item.words] == [(None, (0, 1)), ("X", (3, 6))]


def test_spans_of_words_that_the_text_does_not_spell() -> None:
    # du = de le: both words share what is written; a word that the text lacks has no span, its neighbours keep theirs
    du = [MultiwordToken(1, 3, "du", True)]
    assert word_spans("loin du port", ["loin", "de", "le", "port"], [True] * 4, du) == [(0, 4), (5, 7), (5, 7), (8, 12)]
    assert word_spans("we go home", ["we", "shall", "go", "home"], [True] * 4, []) == [(0, 2), None, (3, 5), (6, 10)]
    assert word_spans("a\u00a0b", ["a", "b"], [True, True], []) == [(0, 1), (2, 3)]


def test_deep_trees_take_no_recursion(write: Write) -> None:
    words = [f"w/X/{i - 1}" for i in range(1, 3001)]
    (item,) = read_trees([write("a.conllu", tree(*words))]).items
    assert [w.depth for w in item.words] == list(range(3000))


def test_what_the_generator_of_english_writes_reads_back(tmp_path: Path) -> None:
    made = sentences(3, 200)
    path = tmp_path / "made.conllu"
    write_conllu(path, made)
    items = read_trees([str(path)]).items
    assert len(items) == len(made)
    for item, sentence in zip(items, made, strict=True):
        assert [(w.form, w.upos, w.head, w.deprel) for w in item.words] == [
            (t.form, t.upos, t.head, t.deprel) for t in sentence.tokens
        ]
        assert all(w.span and item.text[slice(*w.span)] == w.form for w in item.words)


class FakeSplit:
    """A split of a Hub set as `datasets` gives it, as far as it is used."""

    def __init__(self, rows: list[dict[str, Any]], labels: list[str] | None = None) -> None:
        self.rows, self.column_names = rows, list(rows[0])
        inner = SimpleNamespace(names=labels)
        self.features = {
            name: SimpleNamespace(feature=inner) if name == "upos" and labels else SimpleNamespace()
            for name in self.column_names
        }

    def select_columns(self, names: list[str]) -> "FakeSplit":
        chosen = FakeSplit([{name: row[name] for name in names} for row in self.rows])
        return chosen

    def to_list(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self.rows]


def hub_set(monkeypatch: pytest.MonkeyPatch, split: FakeSplit) -> str:
    monkeypatch.setattr(hub, "_ask_hub", lambda name: lambda: None)
    monkeypatch.setattr(hub, "_cached", lambda hub_set, where: {"test": split})
    return "hub:owner/ud:en_ewt"


def test_a_hub_set_with_class_labels_and_rows_that_are_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns as older sets hold them: ranges and empty nodes are rows without a head."""
    labels = ["_", "PRON", "AUX", "PART", "VERB", "PUNCT"]
    row = {
        "idx": "h12",
        "text": "We can't.",
        "tokens": ["We", "can't", "ca", "n't", "go", "."],
        "lemmas": ["we", "_", "can", "not", "go", "."],
        "upos": [1, 0, 2, 3, 4, 5],
        "head": ["4", "None", "4", "4", "None", "0"],
        "deprel": ["nsubj", "_", "aux", "advmod", "_", "root"],
        "misc": ["None", "{'SpaceAfter': 'No'}", "None", "None", "None", "None"],
    }
    (item,) = read_trees([hub_set(monkeypatch, FakeSplit([row], labels))]).items
    assert [(w.form, w.upos, w.head, w.depth) for w in item.words] == [
        ("We", "PRON", 4, 1),
        ("ca", "AUX", 4, 1),
        ("n't", "PART", 4, 1),
        (".", "PUNCT", 0, 0),
    ]
    assert [item.text[slice(*w.span)] for w in item.words if w.span] == ["We", "ca", "n't", "."]
    assert (item.sent_id, item.line) == ("h12", 1)


def test_a_hub_set_with_multiword_tokens_named(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "sent_id": "d",
        "text": "loin du port",
        "tokens": ["loin", "de", "le", "port"],
        "upos": ["ADV", "ADP", "DET", "NOUN"],
        "head": [0, 4, 4, 1],
        "mwt": [{"id": "2-3", "form": "du", "feats": "_", "misc": "_"}],
    }
    (item,) = read_trees([hub_set(monkeypatch, FakeSplit([row]))]).items
    assert [w.span for w in item.words] == [(0, 4), (5, 7), (5, 7), (8, 12)]
    assert [w.deprel for w in item.words] == [None] * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": ["2", "1"]}, r"hub:owner/ud:en_ewt, row 1: sentence 'x' has no root"),
        ({"head": ["0", "one"]}, r"row 1: sentence 'x': the head 'one' is not a number"),
        ({"upos": ["A"]}, r"row 1: sentence 'x': 1 entries in 'upos' for 2 in 'tokens'"),
        ({"tokens": None}, r"'tokens' is None, not a list"),
        ({"text": None}, r"'text' is None, not a string"),
    ],
)
def test_hub_rows_are_checked_as_files_are(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], message: str
) -> None:
    row = {"sent_id": "x", "text": "a b", "tokens": ["a", "b"], "upos": ["A", "B"], "head": ["0", "1"]}
    with pytest.raises(UsageError, match=message):
        read_trees([hub_set(monkeypatch, FakeSplit([row | change]))])


def test_a_hub_set_without_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"no column that can be used; found: label.*text, tokens, upos, head"):
        read_trees([hub_set(monkeypatch, FakeSplit([{"label": 1}]))])
    with pytest.raises(UsageError, match=re.escape("'tokens' is None, not a list. A treebank is conll-u")):
        read_trees([hub_set(monkeypatch, FakeSplit([{"text": "A."}]))])
