"""The header of a GGUF file: architecture, how its tensors are stored, and whether they are all there.

Read here, in well under a second, because the reader of the package `gguf` takes seconds to list a vocabulary.
"""

import mmap
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polarlens.errors import ModelError, UsageError

MAGIC = b"GGUF"
ALIGNMENT = 32
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_PLAIN = {"F32", "F16", "BF16", "F64"}


@dataclass(frozen=True)
class GgufHeader:
    """architecture: `general.architecture`. quantisation: e.g. `Q4_1`, None where all tensors are plain floats.

    values: the file's values about its architecture, without that prefix (`context_length`); None for arrays.
    rope_factors: whether a tensor holds factors for the rotary frequencies.
    """

    architecture: str
    quantisation: str | None
    values: Mapping[str, Any] = field(default_factory=dict)
    rope_factors: bool = False


def read_header(path: Path, *, name: str) -> GgufHeader:
    """Architecture and quantisation of a GGUF file; `name` stands in messages.

    Raises UsageError for a missing file and for one that is not a GGUF, ModelError for one that is damaged or cut off.
    """
    if not path.is_file():
        raise UsageError("there is no such file", where=name, fix="Check the path.")
    with path.open("rb") as file:
        starts_well = file.read(len(MAGIC)) == MAGIC
    if not starts_well:
        raise UsageError("this is not a GGUF file", where=name, fix="Name a .gguf file, a model folder or a Hub id.")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(data, name)
    except (struct.error, UnicodeDecodeError, KeyError, ValueError, OverflowError):
        raise ModelError("the header of this GGUF file is damaged or cut off", where=name) from None


class _Cursor:
    """Little-endian values read one after the other."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self.data, self.at = data, at

    def take(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += struct.calcsize(f"<{code}")
        return value

    def string(self) -> str:
        length = self.take("Q")
        self.at += length
        if self.at > len(self.data):
            raise ValueError("past the end")
        return self.data[self.at - length : self.at].decode()

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.take(_SCALARS[kind])
        inner, count = self.take("I"), self.take("Q")
        if inner in _SCALARS:
            self.at += count * struct.calcsize(f"<{_SCALARS[inner]}")
        else:
            for _ in range(count):
                self.value(inner)
        return None


def _parse(data: mmap.mmap, name: str) -> GgufHeader:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, LlamaFileType

    cursor = _Cursor(data, len(MAGIC))
    cursor.take("I")  # version of the format
    n_tensors, n_values = cursor.take("Q"), cursor.take("Q")
    metadata = {}
    for _ in range(n_values):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.take("I"))
    stored: Counter[str] = Counter()
    end, rope_factors = 0, False
    for _ in range(n_tensors):
        rope_factors |= cursor.string().startswith("rope_f")  # rope_freqs, rope_factors_long, rope_factors_short
        elements = 1
        for _ in range(cursor.take("I")):
            elements *= cursor.take("Q")
        kind, offset = GGMLQuantizationType(cursor.take("I")), cursor.take("Q")
        per_block, size = GGML_QUANT_SIZES[kind]
        stored[kind.name] += elements
        end = max(end, offset + elements // per_block * size)
    alignment = int(metadata.get("general.alignment", ALIGNMENT))
    start = -(-cursor.at // alignment) * alignment
    if start + end > len(data):
        raise ModelError(
            f"the file is cut off: {len(data):,} bytes of {start + end:,}", where=name, fix="Download it again."
        )
    quantisation = None
    if set(stored) - _PLAIN:
        declared = metadata.get("general.file_type")
        names = {int(t): t.name for t in LlamaFileType}
        # "MOSTLY_Q4_1" -> "Q4_1"; without a declared type, what most weights are stored as
        name = names[declared].removeprefix("MOSTLY_") if declared in names else ""
        quantisation = name if name and name not in _PLAIN | {"ALL_F32"} else stored.most_common(1)[0][0]
    architecture = str(metadata["general.architecture"])
    own = f"{architecture}."
    values = {key.removeprefix(own): value for key, value in metadata.items() if key.startswith(own)}
    return GgufHeader(architecture, quantisation, values, rope_factors)
