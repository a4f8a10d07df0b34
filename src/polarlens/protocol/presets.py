"""The noise policies of each preset, by task and id."""

from collections.abc import Mapping
from typing import Any

from polarlens.perturbation.policy import MATCHED, NOTEBOOK, PAPER, Policy
from polarlens.protocol.config import Preset, Task

# A text has no second member, so the loss policy of a preset leaves that factor out when it is stored.
# Trees are sentences, perturbed as texts are.
POLICIES: Mapping[Preset, Mapping[Task, Mapping[str, Policy]]] = {
    "matched": {
        "loss": {"matched": MATCHED},
        "trees": {"matched": MATCHED},
        "pairs": {
            "matched-common": MATCHED,
            "matched-independent": MATCHED.with_levels(across_members="independent"),
        },
    },
    "paper": {"loss": {"paper": PAPER}, "trees": {"paper": PAPER}, "pairs": {"paper-independent": PAPER}},
    "notebook": {
        "loss": {"notebook": NOTEBOOK},
        "trees": {"notebook": NOTEBOOK},
        "pairs": {"notebook-mixed": NOTEBOOK},
    },
}


def policies_as_data(preset: Preset) -> dict[str, dict[str, Any]]:
    """Policy id -> factor -> level (or level per arm), as stored in `summary.json` and the manifest."""
    loss = {name: {**policy.as_dict(), "across_members": None} for name, policy in POLICIES[preset]["loss"].items()}
    return {**loss, **{name: policy.as_dict() for name, policy in POLICIES[preset]["pairs"].items()}}
