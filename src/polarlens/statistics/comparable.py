"""What stands in the way of comparing two runs, and what a reader has to know who compares them: from their manifests.

Comparable are runs that did the same to the same things: preset, noise policies, unit of displacement and length of
texts must agree. Positions, data and displacements may overlap in part: what both have is compared.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

Manifest = Mapping[str, Any]

SAME = ("preset", "delta_mode")
SCALES_APART = 1.5  # ratio of median norms from which one distance is two different perturbations


def refusals(a: Manifest, b: Manifest) -> list[str]:
    """Why no number of the two runs may be subtracted; empty where some may."""
    found = [_differs(name, *(m["settings"].get(name) for m in (a, b))) for name in SAME]
    shared = a["policies"].keys() & b["policies"].keys()
    changed = sorted(name for name in shared if a["policies"][name] != b["policies"][name])
    found += [f"the noise policy {name} does not mean the same in both" for name in changed]
    each = [len(layers) > 1 for layers in map(groups, (a, b))]
    if any(each) and groups(a) != groups(b):
        found.append("blocks were perturbed one at a time, and the models do not have the same ones")
    return [one for one in found if one]


def task_refusals(a: Manifest, b: Manifest) -> dict[str, str]:
    """Task -> why it alone cannot be compared."""
    differs = _differs("max_tokens", *(m["settings"].get("max_tokens") for m in (a, b)))
    return {"loss": f"texts were cut differently ({differs})"} if differs else {}


def cautions(a: Manifest, b: Manifest) -> list[str]:
    """What lies between two runs beside the model: each a warning, without their names."""
    found = [_differs("dtype", *(m["settings"].get("dtype") for m in (a, b)))]
    if len({m["settings"].get("bos") is None for m in (a, b)}) > 1:
        found.append("a BOS token stands before the items of one run only")
    if len({m["tokenizer"]["sha256"] for m in (a, b)}) > 1:
        found.append(
            "their tokenizers differ, so a nat per token is not the same unit in both, and texts cut at a number of "
            "tokens are cut at different words: compare signs and ratios of losses"
        )
    if a["settings"].get("delta_mode") == "absolute":
        scales = [_median_norm(m) for m in (a, b)]
        if None not in scales and max(scales) > SCALES_APART * min(scales):  # type: ignore[type-var, operator]
            found.append(
                f"the same absolute delta is another perturbation: the median norms at the perturbed blocks are "
                f"{scales[0]:.3g} and {scales[1]:.3g}"
            )
    return [one for one in found if one]


def groups(manifest: Manifest) -> list[list[int]]:
    """The groups of blocks perturbed at once, as lists of numbers."""
    return next((wanted["layers"] for wanted in manifest["wanted"].values()), [])


def _median_norm(manifest: Manifest) -> float | None:
    """Median over the perturbed blocks of their states' median norm."""
    at = {block for group in groups(manifest) for block in group}
    profile = (manifest.get("state_profile") or {}).get("blocks", ())
    norms = [one["norm_median"] for one in profile if one["block"] in at]
    return float(np.median(norms)) if norms else None


def _differs(name: str, one: object, other: object) -> str | None:
    return None if one == other else f"{name} {one} and {other}"
