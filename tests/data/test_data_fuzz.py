"""Whatever bytes a file holds, the answer is a Dataset or a UsageError; and what was written is what is read."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from polarlens.data import read_pairs, read_texts
from polarlens.errors import UsageError

relaxed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

NAMES = ["text", "positions", "cluster", "phenomenon", "sentence_good", "sentence_bad", "UID", "good", "bad"]
passages = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
spans = st.lists(st.lists(st.integers(-2, 12), max_size=3), max_size=3)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | spans,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), passages | spans | values, max_size=6)
pieces = st.sampled_from(
    b'text|good,bad|\t|,|"|\n|\r\n|\r|\0|\xff|\xef\xbb\xbf|\xe2\x80\xa8|# text = a|1\ta|{"text": "a"}|'
    b'{"good": "a", "bad": "b"}|{"text": "ab", "positions": [[0, 1]]}|{|}| '.split(b"|")
)
contents = st.one_of(
    st.binary(max_size=60),
    st.lists(pieces, max_size=12).map(b"".join),
    st.lists(objects.map(json.dumps), max_size=4).map(lambda lines: "\n".join(lines).encode()),
)


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "tsv", "csv", "conllu"])
@relaxed
@given(content=contents, limit=st.none() | st.integers(1, 3), text_filter=st.sampled_from(["none", "notebook"]))
@example(content=b'{"text": "\\ud83d"}', limit=None, text_filter="none")
def test_any_bytes(tmp_path: Path, suffix: str, content: bytes, limit: int | None, text_filter: str) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(content)
    try:
        texts = read_texts(str(path), text_filter=text_filter, limit=limit)
    except UsageError as error:
        assert str(path) in str(error)  # noqa: PT017
        assert len(str(error)) < 2000  # noqa: PT017
    else:
        assert all(item.text == item.text.strip() != "" for item in texts.items)
        for item in texts.items:
            assert all(0 <= start < end <= len(item.text) for start, end in item.positions or ())
        check_counts(texts.sources[0], len(texts.items), limit)
        assert len({item.item for item in texts.items}) == len(texts.items)
    try:
        pairs = read_pairs([str(path)], limit=limit)
    except UsageError:
        return
    assert all(pair.good.strip() != pair.bad.strip() for pair in pairs.items)
    check_counts(pairs.sources[0], len(pairs.items), limit)


def check_counts(source: dict[str, object], items: int, limit: int | None) -> None:
    skipped = source["skipped"]
    assert isinstance(skipped, dict)
    assert source["items"] == items <= (limit or items)
    assert source["rows"] == items + sum(skipped.values())
    assert 0 not in skipped.values()


@relaxed
@given(
    lines=st.lists(passages.map(lambda text: text.replace("\n", " ")), min_size=1), end=st.sampled_from(["\n", "\r\n"])
)
def test_lines_come_back(tmp_path: Path, lines: list[str], end: str) -> None:
    wanted = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    path = tmp_path / "a.txt"
    path.write_bytes("".join(f" {line}{end}" for line in lines).encode())
    if not wanted:
        with pytest.raises(UsageError, match="only blank lines"):
            read_texts(str(path))
        return
    dataset = read_texts(str(path))
    assert [(item.line, item.text) for item in dataset.items] == wanted
    assert dataset.sources[0]["rows"] == len(lines)


@relaxed
@given(rows=st.lists(st.tuples(passages, passages, passages), min_size=1), ascii_only=st.booleans())
def test_records_come_back_from_every_format(
    tmp_path: Path, rows: list[tuple[str, str, str]], ascii_only: bool
) -> None:
    # a letter in front keeps members from being blank or equal
    wanted = [{"good": f"g{good}", "bad": f"b{bad}", "cluster": f"c{cluster}"} for good, bad, cluster in rows]
    stripped = [tuple(text.strip() for text in row.values()) for row in wanted]
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps(r, ensure_ascii=ascii_only) for r in wanted), encoding="utf-8"
    )
    for suffix, delimiter in [("csv", ","), ("tsv", "\t")]:
        table = io.StringIO()
        writer = csv.writer(
            table, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\r\n" if ascii_only else "\n"
        )
        writer.writerows([list(wanted[0]), *(list(row.values()) for row in wanted)])
        (tmp_path / f"a.{suffix}").write_bytes(table.getvalue().encode())
    read = {suffix: read_pairs([str(tmp_path / f"a.{suffix}")]).items for suffix in ("jsonl", "csv", "tsv")}
    for pairs in read.values():
        assert [(pair.good, pair.bad, pair.cluster) for pair in pairs] == stripped
        assert [pair.item for pair in pairs] == [pair.item for pair in read["jsonl"]]
    assert [pair.line for pair in read["jsonl"]] == list(range(1, len(rows) + 1))


@relaxed
@given(data=st.data(), text=passages.filter(lambda text: bool(text.strip())))
def test_spans_keep_pointing_at_the_same_characters(tmp_path: Path, data: st.DataObject, text: str) -> None:
    inner = len(text) - len(text.lstrip()), len(text.rstrip())
    bounds = st.lists(st.integers(*inner), min_size=2, max_size=2, unique=True).map(sorted)
    positions = data.draw(st.lists(bounds, min_size=1, max_size=4))
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": text, "positions": positions}), encoding="utf-8")
    (item,) = read_texts(str(path)).items
    assert item.positions is not None
    assert sorted({text[start:end] for start, end in positions}) == sorted(
        {item.text[start:end] for start, end in item.positions}
    )
