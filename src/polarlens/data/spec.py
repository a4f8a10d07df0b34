"""Data SPECs: what a string names, and the sets that are used when none is given."""

from dataclasses import dataclass
from pathlib import Path

from polarlens import bundled
from polarlens.errors import UsageError

# The sets of arXiv 2602.11169: WikiText-103 test passages, and BLiMP subject-verb agreement.
DEFAULT_TEXT_SPEC = "hub:Salesforce/wikitext:wikitext-103-raw-v1:test"
DEFAULT_TEXT_FILTER = "notebook"
DEFAULT_PAIR_SPECS = (
    "hub:nyu-mll/blimp:regular_plural_subject_verb_agreement_1",
    "hub:nyu-mll/blimp:irregular_plural_subject_verb_agreement_1",
)
DEFAULT_PAIR_LIMIT = 100  # of each
LEAST_TREES = 50  # below this no probe is trained

HUB_PREFIX = "hub:"
BUNDLED = "bundled"


@dataclass(frozen=True)
class HubSet:
    """A data set on the Hugging Face Hub. split None: the only split there is."""

    name: str
    config: str
    split: str | None = None


def parse(spec: str, *, sample: str = "") -> Path | HubSet:
    """The file or Hub set that a SPEC names; nothing is opened.

    Everything that does not begin with `hub:` and is not `bundled` is a path (`./hub:x.txt` for a file of such a name).
    sample: the bundled file that `bundled` stands for.
    """
    if spec == BUNDLED:
        return bundled.path(sample)
    if not spec.startswith(HUB_PREFIX):
        return Path(spec)
    parts = spec.removeprefix(HUB_PREFIX).split(":")
    # The loader would take a name without an owner (`json`, `csv`) for one of its own file formats.
    if not all(parts) or len(parts) not in (2, 3) or parts[0].count("/") != 1:
        raise UsageError(
            "not the name of a Hub set",
            where=f"data {spec!r}",
            fix=f"Write hub:OWNER/NAME:CONFIG or hub:OWNER/NAME:CONFIG:SPLIT, for example {DEFAULT_TEXT_SPEC}; "
            f"for a local file of that name write ./{spec}",
        )
    return HubSet(*parts)


def label(spec: str) -> str:
    """The name of a set in rows and messages: of a file without its folder, so that a moved file stays the same set."""
    if spec == BUNDLED:
        return BUNDLED
    target = parse(spec)
    return spec.removeprefix(HUB_PREFIX) if isinstance(target, HubSet) else target.name
