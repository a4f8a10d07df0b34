"""The words that are probed, as arrays: what the probes are to predict, and what might explain it without a state."""

import hashlib
from collections import Counter
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from polarlens.data.spec import LEAST_TREES
from polarlens.errors import UsageError
from polarlens.probing.alignment import AlignedTree

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

TARGETS = ("upos", "depth", "arc_length")
LAST_POSITION = 30  # words further on share a category


@dataclass(frozen=True)
class Words:
    """The aligned words of some sentences, sentence by sentence; arrays are (N,).

    sentence: index into `trees`. form: the word's type (case folded). upos: None where the treebank gives none.
    depth: arcs to the root. arc_length: distance to the head in words, NaN for roots. position: from 1. length: words
    in the sentence.
    """

    trees: tuple[AlignedTree, ...]
    sentence: IntArray
    form: npt.NDArray[np.object_]
    upos: npt.NDArray[np.object_]
    depth: Array
    arc_length: Array
    position: IntArray
    length: IntArray

    def of_sentences(self, chosen: BoolArray) -> BoolArray:
        """(N,) bool: the words of the sentences (S,) that are chosen."""
        return chosen[self.sentence]

    def known(self, target: str) -> BoolArray:
        """(N,) bool: the words for which there is something to predict."""
        if target == "upos":
            return np.array([tag is not None for tag in self.upos], dtype=np.bool_)
        return np.isfinite(self.numbers(target))

    def numbers(self, target: str) -> Array:
        """(N,) the numerical target."""
        return self.depth if target == "depth" else self.arc_length


def words_of(trees: Many[AlignedTree]) -> Words:
    """Collect the aligned words of `trees`."""
    found: list[tuple[Any, ...]] = []
    for s, tree in enumerate(trees):
        n = len(tree.tree.words)
        for i, (word, tokens) in enumerate(zip(tree.tree.words, tree.tokens, strict=True), 1):
            if tokens:
                arc = abs(word.head - i) if word.head else np.nan
                found.append((s, word.form.casefold(), word.upos, word.depth, arc, i, n))
    sentence, form, upos, depth, arcs, position, length = map(list, zip(*found, strict=True)) if found else [[]] * 7
    return Words(
        tuple(trees),
        np.array(sentence, dtype=np.int64),
        np.array(form, dtype=object),
        np.array(upos, dtype=object),
        np.array(depth, dtype=np.float64),
        np.array(arcs, dtype=np.float64),
        np.array(position, dtype=np.int64),
        np.array(length, dtype=np.int64),
    )


def check(words: Words, train: BoolArray, targets: Many[str]) -> None:
    """Raise UsageError where nothing can be learned: too few sentences or training words, or a target without spread.

    train: (N,) the training words.
    """

    def refuse(what: str, fix: str) -> UsageError:
        return UsageError(what, where="--treebank", fix=fix)

    if (n := len(words.trees)) < LEAST_TREES:
        raise refuse(f"{n} sentences are too few for probes", f"Give {LEAST_TREES} or more that fit the window.")
    for target in targets:
        known = words.known(target)
        values: set[Any] = set(words.upos[known] if target == "upos" else words.numbers(target)[known].tolist())
        if len(values) < 2:
            shown = f"only {values.pop()!r}" if values else "none"
            raise refuse(f"the words have one value of {target}: {shown}", "Give a treebank in which it varies.")
        trained, classes = int((known & train).sum()), len(values) if target == "upos" else 2
        if trained < classes:
            what = f"{trained} words to train on, fewer than the {classes} values of {target}"
            raise refuse(what, "Give more sentences.")


def counts_in(words: Words, train: BoolArray) -> Array:
    """(N,) how often each word's type occurs among the training words."""
    counts = Counter(words.form[train])
    return np.array([counts[form] for form in words.form], dtype=np.float64)


def confounds(words: Words, train: BoolArray) -> tuple[Array, dict[str, int]]:
    """What is known of a word without a state: (N, c), and the number of leading columns of each set.

    "none": a constant. "confounds": also position (one-hot to 30), sentence length, log(1 + count in training).
    "confounds+upos": also part of speech, one-hot over the training tags.
    """
    positions = np.minimum(words.position, LAST_POSITION)[:, None] == np.arange(1, LAST_POSITION + 1)
    tags = sorted({tag for tag in words.upos[train] if tag is not None})
    upos = words.upos[:, None] == np.array(tags, dtype=object)
    plain = [np.ones(len(words.form)), positions, words.length, np.log1p(counts_in(words, train))]
    columns = np.column_stack([*plain, upos]).astype(np.float64)
    end = columns.shape[1]
    return columns, {"none": 1, "confounds": end - len(tags), "confounds+upos": end}


def control_labels(words: Words, train: BoolArray, seed: int) -> npt.NDArray[np.object_]:
    """(N,) a random part of speech per word type, drawn from the frequencies in training (Hewitt and Liang 2019).

    It depends on the type, the seed and those frequencies alone.
    """
    counts = Counter(tag for tag in words.upos[train] if tag is not None)
    tags = sorted(counts)
    ends = np.cumsum([counts[tag] for tag in tags]) / counts.total()
    drawn = {form: tags[int(np.searchsorted(ends, _uniform(f"{seed}\0{form}"), "right"))] for form in set(words.form)}
    return np.array([drawn[form] for form in words.form], dtype=object)


def _uniform(key: str) -> float:
    """A number in [0, 1) that is a function of the key."""
    return int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:6]) / 2**48
