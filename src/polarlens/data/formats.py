"""One small reader per file format: a file's lines in, numbered records out. What the fields mean is not known here."""

import csv
import json
import re
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, NoReturn

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


class Record(NamedTuple):
    """What a file holds at one place: the 1-based line it starts on, and its fields (None for a blank line)."""

    line: int
    fields: Mapping[str, object] | None


class BadRecord(Exception):
    """Something at one line cannot be read or used; whoever knows the file's name makes it a `UsageError`."""

    def __init__(self, line: int, what: str, fix: str) -> None:
        super().__init__(what)
        self.line, self.what, self.fix = line, what, fix


def shown(value: object) -> str:
    """`value` as it is quoted in a message: one line, never long."""
    return _SHORT.repr(value)


def listed(names: Iterable[str]) -> str:
    """Field names as they are listed in a message."""
    quoted = [shown(name) for name in names]
    return ", ".join(quoted[:20]) + (", ..." if len(quoted) > 20 else "") or "nothing"


def decode_lines(data: bytes) -> list[str]:
    r"""The lines of a UTF-8 file. A byte order mark is dropped.

    Only a newline ends a line: form feeds, NEL and U+2028 belong to the text, and so does the \r of \r\n, which every
    format strips or skips. Raises BadRecord for invalid UTF-8 (with the zero-based byte offset) and for NUL.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"invalid UTF-8 at byte offset {error.start} (0x{data[error.start]:02x}: {error.reason})"
        raise BadRecord(line, what, "Save the file as UTF-8") from None
    text = text.removeprefix("\ufeff")
    if (nul := text.find("\0")) >= 0:
        line = text.count("\n", 0, nul) + 1
        raise BadRecord(line, "a NUL character", "Remove it, or save the file as UTF-8 if it is UTF-16 or binary")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()  # the newline at the end of the file ends the last line and begins none
    return lines


def read_passages(lines: Sequence[str]) -> Iterator[Record]:
    """.txt: one passage a line."""
    for number, line in enumerate(lines, 1):
        yield Record(number, {"text": line} if line.strip() else None)


def read_json_lines(lines: Sequence[str]) -> Iterator[Record]:
    """.jsonl: one JSON object a line."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            yield Record(number, None)
            continue
        value = _json(line, number, "Write one JSON object a line")
        if not isinstance(value, dict):
            raise BadRecord(number, f"{shown(value)} is not a JSON object", "Write one JSON object a line")
        yield Record(number, value)


def read_comma_table(lines: Sequence[str]) -> Iterator[Record]:
    """.csv: comma-separated, fields quoted as in RFC 4180, the first line naming the columns."""
    return _table(lines, ",")


def read_tab_table(lines: Sequence[str]) -> Iterator[Record]:
    """.tsv: as .csv with tabs."""
    return _table(lines, "\t")


def read_treebank_texts(lines: Sequence[str]) -> Iterator[Record]:
    """.conllu: the `# text =` comment of each sentence; the blank lines between sentences are not records."""
    has_text = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            has_text = False
        elif match := re.match(r"#\s*text\s*=(.*)", line):
            has_text = True
            yield Record(number, {"text": match[1]})
        elif not line.startswith("#") and not has_text:
            raise BadRecord(number, "a sentence without a '# text =' comment", "Add the comment that CoNLL-U requires")


Reader = Callable[[Sequence[str]], Iterator[Record]]

PAIR_READERS: Mapping[str, Reader] = MappingProxyType(
    {".jsonl": read_json_lines, ".tsv": read_tab_table, ".csv": read_comma_table}
)
TEXT_READERS: Mapping[str, Reader] = MappingProxyType(
    {".txt": read_passages, **PAIR_READERS, ".conllu": read_treebank_texts}
)


def _json(text: str, line: int, fix: str) -> object:
    """JSON in the strict sense: no NaN or infinity, no key twice in an object."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        what = f"not valid JSON ({error.msg}, column {error.colno})"
    except ValueError as error:
        what = f"not valid JSON ({error})"
    except RecursionError:
        what = "not usable JSON (nested too deeply)"
    raise BadRecord(line, what, fix)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for key, value in pairs:
        if key in fields:
            raise ValueError(f"the key {shown(key)} stands twice in one object")
        fields[key] = value
    return fields


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _table(lines: Sequence[str], delimiter: str) -> Iterator[Record]:
    limit = csv.field_size_limit(sys.maxsize)  # global in the csv module, and too small for a long passage
    try:
        records = list(_rows(lines, delimiter))
    finally:
        csv.field_size_limit(limit)
    yield from records


def _rows(lines: Sequence[str], delimiter: str) -> Iterator[Record]:
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    end = 0
    try:
        for cells in reader:
            start, end = end + 1, reader.line_num  # a quoted field may hold newlines
            if header is None:
                header = [name.strip() for name in cells]
                if len(set(header)) < len(header):
                    raise BadRecord(start, f"a column is named twice ({listed(header)})", "Rename one of them")
            elif len(cells) <= 1 and not "".join(cells).strip():
                yield Record(start, None)
            elif len(cells) != len(header):
                what = f"{len(cells)} cells where the header names {len(header)} columns ({listed(header)})"
                raise BadRecord(start, what, "Quote fields that hold the separator, a quote or a newline")
            else:
                yield Record(start, _cells(dict(zip(header, cells, strict=True)), start))
    except csv.Error as error:
        fix = 'Quote fields that hold the separator, a quote or a line break, and write "" for a quote inside'
        raise BadRecord(end + 1, f"not a valid table ({error})", fix) from None


def _cells(fields: dict[str, object], line: int) -> dict[str, object]:
    """A table's cells are text, but for positions, which are JSON (none where the cell is empty)."""
    if isinstance(cell := fields.get("positions"), str):
        fix = "Write the positions as JSON, [[start, end], ...]"
        fields["positions"] = _json(cell, line, fix) if cell.strip() else None
    return fields
