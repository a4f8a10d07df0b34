"""The record of verified families that comes with the package, and whether a model's layout is in it.

`verified.json` beside this file is generated: each family was built small with random weights and verified as every
model is when it is loaded.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from polarlens.models.anatomy import Anatomy

PATH = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Verified:
    """Where the record has a model's layout: a family with the same wiring, norm kind and sites.

    layouts: their names there. torch, transformers: the versions that it was made with.
    """

    layouts: tuple[str, ...]
    torch: str
    transformers: str

    def __str__(self) -> str:
        return f"as {', '.join(self.layouts)} with torch {self.torch} and transformers {self.transformers}"


@cache
def record() -> Mapping[str, Any]:
    """The record: `versions` and `layouts`, the latter by name as the documentation shows them."""
    found: dict[str, Any] = json.loads(PATH.read_text("utf-8"))
    return found


def verified(anatomy: Anatomy) -> Verified | None:
    """Where the record has a layout like this one; None where it has none."""
    sites = {name: site.available for name, site in anatomy.sites.items()}
    names = tuple(
        name
        for name, one in record()["layouts"].items()
        if (one["family"], one["wiring"], one["norm_kind"]) == (anatomy.family, anatomy.wiring, anatomy.norm_kind)
        and {site: found["available"] for site, found in one["sites"].items()} == sites
    )
    versions = record()["versions"]
    return Verified(names, versions["torch"], versions["transformers"]) if names else None
