"""Parquet parts on disk: atomic writes, and a scan that says what is done without reading the rows."""

import json
import os
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Many
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from polarlens.errors import UsageError
from polarlens.rows.schema import SCHEMAS

_UNIT = b"polarlens.unit"

Rows: TypeAlias = Many[Mapping[str, Any]] | pd.DataFrame
"""Rows of a unit: one mapping each, or a table with some of the schema's columns."""


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that appears under `path` complete and synced, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write strict JSON (no NaN) whole or not at all."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with written_whole(path) as file:
        file.write(text.encode())


@dataclass(frozen=True)
class Part:
    """One Parquet part: its file and the unit of work (plain data) whose rows it holds."""

    path: Path
    unit: dict[str, Any]


def write_part(folder: Path, experiment: str, key: str, rows: Rows, unit: Mapping[str, Any]) -> Path:
    """Write the rows of one unit as `rows/<experiment>/<key>.parquet`, with the unit in the file's metadata."""
    schema = SCHEMAS[experiment].with_metadata({_UNIT: json.dumps(unit).encode()})
    if isinstance(rows, pd.DataFrame):
        table = pa.Table.from_pandas(rows.reindex(columns=schema.names), schema=schema, preserve_index=False)
        table = table.replace_schema_metadata(schema.metadata)  # without pandas' own
    else:
        table = pa.Table.from_pylist(list(rows), schema=schema)
    path = folder / "rows" / experiment / f"{key}.parquet"
    with written_whole(path) as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)
    return path


def scan(folder: Path, experiment: str) -> tuple[list[Part], list[Path]]:
    """Parts whose rows can be trusted, and files that cannot be read (truncated, empty or not Parquet)."""
    parts, damaged = [], []
    for path in sorted((folder / "rows" / experiment).glob("*.parquet")):
        try:
            metadata = pq.read_schema(path).metadata or {}
            parts.append(Part(path, json.loads(metadata[_UNIT])))
        except (pa.ArrowException, OSError, KeyError, ValueError):
            damaged.append(path)
    return parts, damaged


def damaged_parts(folder: Path, experiment: str) -> list[Path]:
    """Parts that cannot be read to the last page, checksums included."""
    return _tables(folder, experiment)[1]


def read_rows(folder: Path, experiment: str) -> pd.DataFrame:
    """All rows of an experiment, in the order of their files; empty when there are none.

    Raises UsageError naming a part that cannot be read.
    """
    tables, damaged = _tables(folder, experiment)
    if damaged:
        raise UsageError(
            "this file of rows is damaged",
            where=str(damaged[0]),
            fix="Repeat the run's command: the file is set aside and its rows are measured again.",
        )
    return pa.concat_tables([SCHEMAS[experiment].empty_table(), *tables]).to_pandas(types_mapper=_NULLABLE.get)


def _tables(folder: Path, experiment: str) -> tuple[list[pa.Table], list[Path]]:
    """The parts read whole, each once, and the files that cannot be."""
    parts, damaged = scan(folder, experiment)
    tables = []
    for part in parts:
        try:
            tables.append(_read(part.path, experiment))
        except (pa.ArrowException, OSError):
            damaged.append(part.path)
    return tables, damaged


def _read(path: Path, experiment: str) -> pa.Table:
    return pq.read_table(path, schema=SCHEMAS[experiment], page_checksum_verification=True)


# Integers stay integers where a column has nulls.
_NULLABLE: dict[pa.DataType, Any] = {
    pa.int8(): pd.Int8Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
}
