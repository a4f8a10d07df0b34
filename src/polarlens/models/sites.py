"""The names of the sites in a transformer block, by role and never by module name, and what is known about each."""

from dataclasses import dataclass

from polarlens.errors import SiteError

BLOCK_OUTPUT = "block output"
ATTENTION = "attention contribution"
MLP = "mlp contribution"
PRE_ATTENTION_NORM = "pre-attention norm output"
PRE_MLP_NORM = "pre-mlp norm output"
FINAL_NORM = "final norm output"
PATTERN = "attention pattern"

SITES = (BLOCK_OUTPUT, ATTENTION, MLP, PRE_ATTENTION_NORM, PRE_MLP_NORM, FINAL_NORM, PATTERN)


@dataclass(frozen=True)
class Site:
    """What is known about one site, for all blocks together.

    available: it exists and was verified in every block.
    how: the identity that was verified, or the reason why the site is refused.
    error: the largest relative error of the identity over tokens and blocks, where one was computed.
    """

    name: str
    available: bool
    how: str
    error: float | None = None


def refuse(name: str, reason: str, model: str) -> SiteError:
    """The error for a site that is asked for by name but not there."""
    return SiteError(f"the site {name!r} is not available in this model: {reason}", where=model)
