"""Read a data SPEC: from its name to items with their provenance."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic

from polarlens import bundled
from polarlens.data.filters import TEXT_FILTERS
from polarlens.data.formats import PAIR_READERS, TEXT_READERS, BadRecord, Reader, Record, decode_lines
from polarlens.data.hub import digest, load_rows
from polarlens.data.items import Dataset, Pair, T, Text, Tree
from polarlens.data.records import FIELD_NAMES, PAIR_FIELDS, TEXT_FIELDS, pair_item, text_item
from polarlens.data.spec import HubSet, label, parse
from polarlens.data.treebank import TREE_COLUMNS, TREE_FIELDS, TREE_READERS, tree_item
from polarlens.errors import UsageError


@dataclass(frozen=True)
class _Kind(Generic[T]):
    """How one kind of item is read: its files, its Hub columns, what its records mean, and what to say about them."""

    named: str
    readers: Mapping[str, Reader]
    columns: Sequence[str]
    make: Callable[[Record, str], T | None]
    fields: str
    sample: str


_TEXTS = _Kind("texts", TEXT_READERS, FIELD_NAMES, text_item, TEXT_FIELDS, bundled.PASSAGES)
_PAIRS = _Kind("minimal pairs", PAIR_READERS, FIELD_NAMES, pair_item, PAIR_FIELDS, bundled.PAIRS)
_TREES = _Kind("trees", TREE_READERS, TREE_COLUMNS, tree_item, TREE_FIELDS, bundled.TREES)


def read_texts(spec: str, *, text_filter: str = "none", limit: int | None = None) -> Dataset[Text]:
    """Read the passages that a SPEC names.

    spec: a local `.txt`, `.jsonl`, `.tsv`, `.csv` or `.conllu` file, `hub:NAME:CONFIG[:SPLIT]`, or `bundled`.
    text_filter: `none` or `notebook` (see `filters.notebook`).
    limit: keep the first N after filtering. The whole file is read and checked all the same.

    Blank passages are skipped and counted. Raises UsageError, with file and line where there is one, for everything
    that cannot be read or used, and when nothing is left.
    """
    if text_filter not in TEXT_FILTERS:
        raise UsageError(f"no text filter {text_filter!r}", where="--text-filter", fix=_choose(TEXT_FILTERS))
    passes = TEXT_FILTERS[text_filter]
    items, source = _read(spec, _TEXTS, lambda item: passes(item.text), limit)
    return Dataset("text", items, (source,))


def read_pairs(specs: Sequence[str], *, limit: int | None = None) -> Dataset[Pair]:
    """Read the minimal pairs that one or several SPECs name, in the order given.

    specs: local `.jsonl`, `.tsv` or `.csv` files with BLiMP's columns or with `good` and `bad`,
    `hub:NAME:CONFIG[:SPLIT]`, or `bundled`.
    limit: keep the first N of each SPEC.

    Raises UsageError as `read_texts`, and for two SPECs of one name, since rows are told apart by it.
    """
    return Dataset("pairs", *_read_all(specs, _PAIRS, "--pairs", limit))


def read_trees(specs: Sequence[str], *, limit: int | None = None) -> Dataset[Tree]:
    """Read the treebanks that one or several SPECs name, in the order given.

    specs: local `.conllu` files, or `hub:NAME:CONFIG[:SPLIT]` where the set has the columns `text`, `tokens`, `upos`
    and `head` (and may have `deprel`, `misc`, `mwt`, `sent_id` or `idx`).
    limit: keep the first N of each SPEC.

    Raises UsageError as `read_pairs`; what is wrong with a tree is named with its sentence and line.
    """
    return Dataset("trees", *_read_all(specs, _TREES, "--treebank", limit))


def _read_all(
    specs: Sequence[str], kind: _Kind[T], option: str, limit: int | None
) -> tuple[tuple[T, ...], tuple[dict[str, object], ...]]:
    """The items of all SPECs and the records of where they came from."""
    if not specs:
        raise UsageError(f"no {kind.named} named", where=option, fix="Name a file or a Hub set")
    for name, count in Counter(map(label, specs)).items():
        if count > 1:
            fix = "Name each set once, and give files different names"
            raise UsageError(f"{count} sets are called {name}", where=option, fix=fix)
    items: list[T] = []
    sources = []
    for spec in specs:
        kept, source = _read(spec, kind, lambda item: True, limit)
        items += kept
        sources.append(source)
    return tuple(items), tuple(sources)


def _read(
    spec: str, kind: _Kind[T], passes: Callable[[T], bool], limit: int | None
) -> tuple[tuple[T, ...], dict[str, object]]:
    """The items of one SPEC and the record of where they came from."""
    if limit is not None and limit < 1:
        raise UsageError(f"a limit of {limit} leaves nothing", where="--limit", fix="Give 1 or more, or leave it out")
    target, name = parse(spec, sample=kind.sample), label(spec)
    items: list[T] = []
    skipped: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    try:
        sha256, records = _records(target, spec, kind)
        for record in records:
            item = kind.make(record, name)
            if item is None:
                skipped["blank"] += 1
            elif not passes(item):
                skipped["text filter"] += 1
            elif len(items) == limit:
                skipped["limit"] += 1
            else:
                repeat = seen[item.item]
                seen[item.item] += 1
                items.append(replace(item, item=f"{item.item}-{repeat}") if repeat else item)
    except BadRecord as error:
        unit = "row" if isinstance(target, HubSet) else "line"
        raise UsageError(error.what, where=f"{spec}, {unit} {error.line}", fix=error.fix) from None
    if not items:
        raise _nothing_left(spec, skipped)
    rows = len(items) + skipped.total()
    source = {"spec": spec, "sha256": sha256, "rows": rows, "items": len(items), "skipped": dict(skipped)}
    return tuple(items), source


def _records(target: Path | HubSet, spec: str, kind: _Kind[T]) -> tuple[str, Iterable[Record]]:
    """The digest of a set and its records."""
    if not isinstance(target, HubSet):
        return _file_records(target, kind)
    rows = load_rows(target, where=spec, names=kind.columns)
    return digest(rows), (Record(number, row) for number, row in enumerate(rows, 1))


def _file_records(path: Path, kind: _Kind[T]) -> tuple[str, Iterable[Record]]:
    where = str(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        fix = "Check the path; a set on the Hugging Face Hub is written hub:OWNER/NAME:CONFIG:SPLIT"
        raise UsageError("no such file", where=where, fix=fix) from None
    except IsADirectoryError:
        raise UsageError("a folder, not a file", where=where, fix="Name one file in it") from None
    except (OSError, ValueError) as error:  # ValueError: no path at all, such as one that holds a NUL
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        fix = "Check the path and who may read it"
        raise UsageError(f"the file cannot be read ({reason})", where=where, fix=fix) from None
    suffix = path.suffix.lower()
    reader = kind.readers.get(suffix)
    if reader is None:
        known = suffix in TEXT_READERS
        what = f"a {path.suffix} file holds no {kind.named}" if known else f"unknown kind of file {path.suffix!r}"
        raise UsageError(what, where=where, fix=f"{_choose(kind.readers)}; {kind.fields}")
    return hashlib.sha256(data).hexdigest(), reader(decode_lines(data))


def _nothing_left(spec: str, skipped: Counter[str]) -> UsageError:
    if filtered := skipped["text filter"]:
        what = f"none of {filtered} passages passes the text filter"
        return UsageError(what, where=spec, fix="Use --text-filter none, or another text")
    what = "only blank lines" if skipped else "empty"
    return UsageError(what, where=spec, fix="Name a file with at least one item in it")


def _choose(names: Iterable[str]) -> str:
    return f"Choose one of: {', '.join(names)}"
