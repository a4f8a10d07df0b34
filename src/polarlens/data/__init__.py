"""Texts, minimal pairs and treebanks, read from local files or Hub sets into plain records."""

from polarlens.data.items import Dataset, Pair, Text, Tree, Word
from polarlens.data.read import read_pairs, read_texts, read_trees

__all__ = ["Dataset", "Pair", "Text", "Tree", "Word", "read_pairs", "read_texts", "read_trees"]
