"""Parts are whole or absent, hold nulls where something is missing, and damaged ones are told apart."""

import errno
import json

import pandas as pd
import pyarrow.parquet as pq
import pytest

from polarlens.errors import UsageError
from polarlens.rows.store import damaged_parts, read_rows, scan, write_json, write_part, written_whole

ROW = {"model": "m", "experiment": "sweep", "task": "loss", "item": "a", "arm": "clean", "delta": 0.0, "nll": 1.5}


def test_a_part_comes_back_with_its_unit_and_nulls(tmp_path):
    unit = {"items": [["d", "a"]], "layers": [1]}
    path = write_part(tmp_path, "sweep", "k1", [ROW], unit)
    (part,), damaged = scan(tmp_path, "sweep")
    assert (part.path, part.unit, damaged) == (path, unit, [])
    rows = read_rows(tmp_path, "sweep")
    assert rows.nll.tolist() == [1.5]
    assert rows.seed.isna().all()
    assert pd.api.types.is_integer_dtype(rows.seed)
    assert pq.read_table(path).column("kl").null_count == 1


def test_rows_of_several_parts_are_joined_and_none_is_an_empty_table(tmp_path):
    assert len(read_rows(tmp_path, "sweep")) == 0
    for key, item in (("k2", "b"), ("k1", "a")):
        write_part(tmp_path, "sweep", key, [ROW | {"item": item}], {})
    assert read_rows(tmp_path, "sweep").item.tolist() == ["a", "b"]


@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage", "foreign"])
def test_damaged_parts_are_named(tmp_path, damage):
    path = write_part(tmp_path, "sweep", "k1", [ROW] * 50, {})
    data = path.read_bytes()
    if damage == "foreign":  # a Parquet file that holds no unit of ours
        pd.DataFrame({"x": [1]}).to_parquet(path)
    else:
        path.write_bytes({"truncated": data[: len(data) // 2], "empty": b"", "garbage": b"\x00garbage" * 99}[damage])
    parts, damaged = scan(tmp_path, "sweep")
    assert (parts, damaged) == ([], [path])
    with pytest.raises(UsageError, match=r"k1\.parquet"):
        read_rows(tmp_path, "sweep")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_the_old_file_and_no_rest(tmp_path, error):
    target = tmp_path / "summary.json"
    write_json(target, {"a": 1})

    def write_half():
        with written_whole(target) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert json.loads(target.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [target]


def test_json_refuses_nan(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_flipped_byte_in_the_body_is_noticed(tmp_path):
    """The footer is intact, so only reading to the last page shows it."""
    path = write_part(tmp_path, "sweep", "k1", [ROW | {"nll": float(n)} for n in range(500)], {})
    data = bytearray(path.read_bytes())
    for offset in (10, 40, 200):
        data[offset] ^= 0xFF
    path.write_bytes(data)
    assert scan(tmp_path, "sweep")[1] == []
    assert damaged_parts(tmp_path, "sweep") == [path]
    with pytest.raises(UsageError, match=r"k1\.parquet"):
        read_rows(tmp_path, "sweep")
