"""Treebanks: CoNLL-U files and Hub sets with its columns, as records and then as checked trees.

A file is brought to the columns that Hub sets have (tokens, upos, head, ...), so that one function says what they mean.
Multiword tokens (ranges) and empty nodes are no words: heads count words alone.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from polarlens.data.formats import BadRecord, Reader, Record, shown
from polarlens.data.items import Tree, Word, identity
from polarlens.data.placing import MultiwordToken, word_spans
from polarlens.data.records import Fields, string_field

TREE_COLUMNS = ("text", "tokens", "upos", "head", "deprel", "misc", "mwt", "sent_id", "idx")
TREE_FIELDS = "a treebank is CoNLL-U, or a Hub set with the columns 'text', 'tokens', 'upos' and 'head'"

_SEE = "See https://universaldependencies.org/format.html"
_TEXT = re.compile(r"#\s*text\s*=(.*)")
_ID = re.compile(r"#\s*sent_id\s*=(.*)")
_NO_SPACE = re.compile(r"SpaceAfter\W+No\b")  # as in CoNLL-U, or as a Hub set shows a dictionary
_NO_HEAD = (None, "None", "_")  # in a Hub set: a multiword token or an empty node


def read_conllu(lines: Sequence[str]) -> Iterator[Record]:
    """.conllu: one record per sentence, with `lines`, the line of each word, beside the columns of `TREE_COLUMNS`."""
    start: int | None = None
    found = False
    for number, line in enumerate([*lines, ""], 1):
        if line.strip():
            start = start or number
        elif start is not None:
            block = [text.removesuffix("\r") for text in lines[start - 1 : number - 1]]
            if not all(text.startswith("#") for text in block):  # comments alone belong to no sentence
                found = True
                yield _sentence(block, start)
            start = None
    if lines and not found:
        raise BadRecord(1, "no trees", "Name a CoNLL-U file with at least one sentence in it")


def _sentence(block: Sequence[str], start: int) -> Record:
    import conllu

    text, name = (next((m[1] for line in block if (m := pattern.match(line))), None) for pattern in (_TEXT, _ID))
    called = _called(name, start)
    at = [start + i for i, line in enumerate(block) if not line.startswith("#")]
    if text is None:
        raise BadRecord(start, f"{called} has no '# text =' comment", "Add the comment that CoNLL-U requires")
    for number in at:
        if (columns := block[number - start].count("\t") + 1) != 10:
            raise BadRecord(number, f"{called}: {columns} tab-separated columns, not 10", _SEE)
    try:
        (tokens,) = conllu.parse("\n".join(block[number - start] for number in at) + "\n\n")
        rows = list(zip(tokens, at, strict=True))
    except (conllu.exceptions.ParseException, ValueError) as error:
        raise BadRecord(at[0], f"{called} is not valid CoNLL-U ({str(error)[:200]})", _SEE) from None
    words = [(token, number) for token, number in rows if isinstance(token["id"], int)]
    for expected, (token, number) in enumerate(words, 1):
        if token["id"] != expected:
            raise BadRecord(number, f"{called}: word {token['id']} where word {expected} is due", _SEE)
        if token["head"] is None:
            raise BadRecord(number, f"{called}: word {expected} has no head", "Give every word a HEAD, the root 0")
    fields: dict[str, object] = {name: [token[name] for token, _ in words] for name in ("upos", "head", "deprel")}
    fields["tokens"] = [token["form"] for token, _ in words]
    fields["misc"] = [str(token["misc"]) for token, _ in words]
    fields["mwt"] = [
        {"id": "-".join(map(str, token["id"][::2])), "form": token["form"], "misc": str(token["misc"])}
        for token, _ in rows
        if isinstance(token["id"], tuple) and token["id"][1] == "-"
    ]
    fields |= {"text": text, "sent_id": name, "lines": [number for _, number in words]}
    return Record(start, fields)


TREE_READERS: Mapping[str, Reader] = MappingProxyType({".conllu": read_conllu})


def tree_item(record: Record, dataset: str) -> Tree | None:
    """The tree in a record (`item` without a repeat's suffix).

    Raises BadRecord, with the sentence and the word's line, for columns that do not fit together, a head out of range,
    a sentence without a root, a cycle, and multiword tokens that overlap.
    """
    line, fields = record
    if fields is None:
        return None
    stated = fields.get("sent_id") or fields.get("idx")
    sent_id = None if stated is None else str(stated).strip() or None
    called = _called(sent_id, line)
    text = string_field(fields, "text", line, TREE_FIELDS).strip()
    if not text:
        raise BadRecord(line, f"{called}: the text is empty", "Fill it in or remove the sentence")
    columns = _columns(fields, line, called)
    heads = [_number(head, line, called) for head in columns["head"]]
    at = fields.get("lines")
    lines = at if isinstance(at, list) else [line] * len(heads)
    depths = _depths(heads, lines, called)
    forms = [str(form) for form in columns["tokens"]]
    spaced = [_spaced(misc) for misc in columns["misc"]]
    spans = word_spans(text, forms, spaced, _multiword(fields.get("mwt"), len(forms), line, called))
    words = (
        Word(form, _label(upos), head, _label(deprel), depth, span)
        for form, upos, head, deprel, depth, span in zip(
            forms, columns["upos"], heads, columns["deprel"], depths, spans, strict=True
        )
    )
    key = identity(text)
    return Tree(text, tuple(words), key, key, dataset, line, sent_id=sent_id)


def _called(sent_id: str | None, line: int) -> str:
    return f"sentence {shown(sent_id.strip())}" if sent_id else f"the sentence at {line}"


def _columns(fields: Fields, line: int, called: str) -> dict[str, list[object]]:
    """The columns of one sentence, equally long, without the rows that are no words; optional ones filled with None."""
    out: dict[str, list[object]] = {}
    for name in ("tokens", "upos", "head", "deprel", "misc"):
        column = fields.get(name)
        if column is None and name in ("deprel", "misc"):
            column = [None] * len(out["tokens"])
        if not isinstance(column, list) or not column:
            raise BadRecord(line, f"{called}: {name!r} is {shown(column)}, not a list", TREE_FIELDS.capitalize())
        if out and len(column) != len(out["tokens"]):
            what = f"{called}: {len(column)} entries in {name!r} for {len(out['tokens'])} in 'tokens'"
            raise BadRecord(line, what, "Give every word one entry in each column")
        out[name] = column
    words = [head not in _NO_HEAD for head in out["head"]]
    return {name: [value for value, word in zip(column, words, strict=True) if word] for name, column in out.items()}


def _number(head: object, line: int, called: str) -> int:
    try:
        return int(str(head))
    except ValueError:
        raise BadRecord(line, f"{called}: the head {shown(head)} is not a number", _SEE) from None


def _depths(heads: Sequence[int], lines: Sequence[int], called: str) -> list[int]:
    """Arcs from each word up to its root; every word is walked over once."""
    n = len(heads)
    for word, (head, line) in enumerate(zip(heads, lines, strict=True), 1):
        if not 0 <= head <= n:
            what = f"{called}: word {word} has head {head}, out of range for {n} words"
            raise BadRecord(line, what, "Heads count words alone: no multiword tokens, no empty nodes")
    if 0 not in heads:
        raise BadRecord(lines[0] if n else 0, f"{called} has no root", "Give one word the HEAD 0")
    depth: dict[int, int] = {0: -1}
    for word in range(1, n + 1):
        path: dict[int, None] = {}
        while word not in depth:
            if word in path:
                raise BadRecord(lines[word - 1], f"{called}: word {word} is in a cycle of heads", "Correct its HEAD")
            path[word] = None
            word = heads[word - 1]
        for above in reversed(path):
            depth[above] = depth[heads[above - 1]] + 1
    return [depth[word] for word in range(1, n + 1)]


def _multiword(value: object, n_words: int, line: int, called: str) -> list[MultiwordToken]:
    """The ranges of a sentence, in order."""
    out = []
    for entry in value if isinstance(value, list) else ():
        first, _, last = str(entry.get("id")).partition("-")
        if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last) <= n_words):
            raise BadRecord(line, f"{called}: the multiword token {shown(entry.get('id'))} covers no words", _SEE)
        out.append(MultiwordToken(int(first) - 1, int(last), str(entry.get("form")), _spaced(entry.get("misc"))))
    for one, other in pairwise(out):
        if other.start < one.stop:
            raise BadRecord(line, f"{called}: multiword tokens overlap at word {other.start + 1}", _SEE)
    return out


def _spaced(misc: object) -> bool:
    return _NO_SPACE.search(str(misc)) is None


def _label(value: object) -> str | None:
    return None if value is None or (text := str(value).strip()) in ("", "_", "None") else text
