"""Labelled English made by a grammar: sentences with gold trees, minimal pairs, passages; the seed decides them."""

from polarlens.english.discourse import passages
from polarlens.english.grammar import sentences
from polarlens.english.pairs import MinimalPair, pairs
from polarlens.english.tree import Sentence, Token
from polarlens.english.writers import write_conllu, write_pairs, write_passages

__all__ = [
    "MinimalPair",
    "Sentence",
    "Token",
    "pairs",
    "passages",
    "sentences",
    "write_conllu",
    "write_pairs",
    "write_passages",
]
