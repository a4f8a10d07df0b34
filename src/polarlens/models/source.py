"""Where a model came from, as it stands in results."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Source:
    """Where a model came from.

    kind: where it was read; `memory` for a model that was handed over. location: repository id, folder or file.
    revision: the commit of a Hub model. quantisation: e.g. `Q4_1` for a GGUF whose weights were stored quantised (they
    are measured dequantised), the method's name for a quantised checkpoint, else None.
    """

    kind: Literal["hub", "directory", "gguf", "bundled", "memory"]
    location: str
    revision: str | None = None
    quantisation: str | None = None
