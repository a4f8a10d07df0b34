"""Loading causal language models and knowing their parts: families as data, sites by role, numerical verification."""

from polarlens.models.anatomy import Anatomy, Block
from polarlens.models.checking import Check, check
from polarlens.models.language_model import LanguageModel, Source
from polarlens.models.load import load
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
from polarlens.models.tokens import BosPolicy, encode, resolve_bos

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
