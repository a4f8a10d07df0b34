"""Loading causal language models and knowing their parts: families as data, sites by role, numerical verification.

Names that need torch are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from polarlens.models.loading import load
from polarlens.models.sites import (
    ATTENTION,
    BLOCK_OUTPUT,
    FINAL_NORM,
    MLP,
    PATTERN,
    PRE_ATTENTION_NORM,
    PRE_MLP_NORM,
    SITES,
    Site,
)
from polarlens.models.source import Source
from polarlens.models.tokens import BosPolicy, encode, resolve_bos

if TYPE_CHECKING:
    from polarlens.models.anatomy import Anatomy, Block
    from polarlens.models.checking import Check, check
    from polarlens.models.language_model import LanguageModel

_LATER = {
    "Anatomy": "anatomy",
    "Block": "anatomy",
    "Check": "checking",
    "check": "checking",
    "LanguageModel": "language_model",
}

__all__ = [
    "ATTENTION",
    "BLOCK_OUTPUT",
    "FINAL_NORM",
    "MLP",
    "PATTERN",
    "PRE_ATTENTION_NORM",
    "PRE_MLP_NORM",
    "SITES",
    "Anatomy",
    "Block",
    "BosPolicy",
    "Check",
    "LanguageModel",
    "Site",
    "Source",
    "check",
    "encode",
    "load",
    "resolve_bos",
]


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
