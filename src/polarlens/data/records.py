"""From a record's fields to a checked item: the one place that knows what the fields mean."""

from collections.abc import Mapping

from polarlens.data.formats import BadRecord, Record, listed, shown
from polarlens.data.items import Pair, Text, identity

Fields = Mapping[str, object]

TEXT_FIELDS = "a text needs 'text', and may have 'positions', 'cluster' and 'phenomenon'"
PAIR_FIELDS = (
    "a pair needs 'sentence_good' and 'sentence_bad' (BLiMP) or 'good' and 'bad', "
    "and may have 'cluster' and 'phenomenon' (BLiMP: 'UID')"
)
FIELD_NAMES = ("text", "positions", "sentence_good", "sentence_bad", "UID", "good", "bad", "cluster", "phenomenon")


def text_item(record: Record, dataset: str) -> Text | None:
    """The passage in a record (`item` without a repeat's suffix), or None for a blank one.

    `text` is stripped. `positions` are spans of the text as the file has it; they are moved with the text, and cut
    where they reach into the white space that was stripped.
    """
    line, fields = record
    if fields is None:
        return None
    raw = string_field(fields, "text", line, TEXT_FIELDS)
    if not (text := raw.strip()):
        return None
    cluster, phenomenon = _label(fields, "cluster", line), _label(fields, "phenomenon", line)
    positions = _positions(fields.get("positions"), raw, line)
    key = identity(text, cluster=cluster, phenomenon=phenomenon, positions=positions)
    return Text(text, key, cluster or key, dataset, line, phenomenon, positions)


def pair_item(record: Record, dataset: str) -> Pair | None:
    """The minimal pair in a record (`item` without a repeat's suffix), or None for a blank line."""
    line, fields = record
    if fields is None:
        return None
    blimp = "sentence_good" in fields or "sentence_bad" in fields
    names = ("sentence_good", "sentence_bad") if blimp else ("good", "bad")
    good, bad = (string_field(fields, name, line, PAIR_FIELDS).strip() for name in names)
    for name, member in zip(names, (good, bad), strict=True):
        if not member:
            raise BadRecord(line, f"{name!r} is empty", "Fill it in or remove the pair")
    if good == bad:
        what = f"{names[0]!r} and {names[1]!r} are the same sentence ({shown(good)})"
        raise BadRecord(line, what, "Make the members differ or remove the pair")
    if fields.get("positions") is not None:
        raise BadRecord(line, "'positions' are for texts, not for pairs", "Remove the field")
    cluster, phenomenon = _label(fields, "cluster", line), _label(fields, "phenomenon", line)
    key = identity(f"{good}\n{bad}", cluster=cluster, phenomenon=phenomenon)
    if phenomenon is None and blimp:
        phenomenon = _label(fields, "UID", line)  # after the identity, so that BLiMP's pairs are known by their text
    return Pair(good, bad, key, cluster or key, dataset, line, phenomenon)


def string_field(fields: Fields, name: str, line: int, needed: str) -> str:
    """The string under `name`; BadRecord where it is not there (`needed`: what an item consists of) or not usable."""
    if name not in fields:
        raise BadRecord(line, f"no field {name!r}; found: {listed(fields)}", needed[0].upper() + needed[1:])
    value = fields[name]
    if not isinstance(value, str):
        raise BadRecord(line, f"{name!r} is {shown(value)}, not a string", "Put it in quotes")
    if "\0" in value:
        raise BadRecord(line, f"a NUL character in {name!r}", "Remove it")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRecord(line, f"{name!r} holds half of a surrogate pair", "Write the whole character") from None
    return value


def _label(fields: Fields, name: str, line: int) -> str | None:
    """An optional string, stripped; null and blank count as absent."""
    return None if fields.get(name) is None else string_field(fields, name, line, "").strip() or None


def _positions(value: object, raw: str, line: int) -> tuple[tuple[int, int], ...] | None:
    """Spans of `raw` as spans of `raw.strip()`, in order, each once."""
    if value is None:
        return None
    fix = f"Write [[start, end], ...] with 0 <= start < end <= {len(raw)}, or leave positions out to perturb everything"
    if not isinstance(value, list) or not value:
        raise BadRecord(line, f"'positions' is {shown(value)}, not a list of spans", fix)
    indent, length = len(raw) - len(raw.lstrip()), len(raw.strip())
    spans = set()
    for span in value:
        # bool is an int to Python, but true is no place in a text
        if not isinstance(span, list) or len(span) != 2 or any(type(bound) is not int for bound in span):
            raise BadRecord(line, f"the span {shown(span)} in 'positions' is not two whole numbers", fix)
        start, end = span
        if not 0 <= start < end <= len(raw):
            raise BadRecord(line, f"the span {shown(span)} in 'positions' does not lie inside the text", fix)
        start, end = max(start - indent, 0), min(end - indent, length)
        if start >= end:
            raise BadRecord(line, f"the span {shown(span)} in 'positions' holds only white space that is stripped", fix)
        spans.add((start, end))
    return tuple(sorted(spans))
