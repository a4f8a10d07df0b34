"""Texts and minimal pairs, read from local files or Hub sets into plain records."""

from polarlens.data.items import Dataset, Pair, Text
from polarlens.data.read import read_pairs, read_texts

__all__ = ["Dataset", "Pair", "Text", "read_pairs", "read_texts"]
