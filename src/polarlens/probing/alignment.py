"""Which tokens each word of a sentence consists of, by characters: trees to token ids."""

from collections import Counter
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polarlens.data.items import Tree
from polarlens.engine.encoding import Encoded
from polarlens.errors import ModelError
from polarlens.perturbation import Sequence

Span = tuple[int, int]


@dataclass(frozen=True)
class AlignedTree:
    """One sentence as token ids, with the tokens of its words.

    encoded: the sentence for the engine; an added BOS is token 0.
    tokens: per word the indices of its tokens in the sequence, BOS counted and never among them; empty where the word
    could not be aligned.
    shared: per word, whether one of its tokens also belongs to another word.
    """

    encoded: Encoded
    tree: Tree
    tokens: tuple[tuple[int, ...], ...]
    shared: tuple[bool, ...]


@dataclass
class AlignedTrees:
    """Sentences in an order of their own, so that the order in which they were read does not matter.

    skipped: reason -> sentences left out. words, unaligned, shared: words of the sentences that are kept, those without
    a token, and those that share one.
    """

    items: tuple[AlignedTree, ...]
    skipped: Counter[str] = field(default_factory=Counter)
    words: int = 0
    unaligned: int = 0
    shared: int = 0


def tokens_of_words(
    spans: Many[Span | None], offsets: Many[Span]
) -> tuple[tuple[tuple[int, ...], ...], tuple[bool, ...]]:
    """The tokens that overlap each word's characters, and whether another word has one of them too.

    spans: characters [start, end) of each word, None where it has none. offsets: of each token.
    """
    tokens = tuple(
        () if span is None else tuple(i for i, (a, b) in enumerate(offsets) if a < b and a < span[1] and span[0] < b)
        for span in spans
    )
    owners = Counter(token for word in tokens for token in word)
    return tokens, tuple(any(owners[token] > 1 for token in word) for word in tokens)


def align_trees(trees: Many[Tree], tokenizer: Any, bos: int | None, *, window: int | None) -> AlignedTrees:
    """Token ids of whole sentences, never cut, and the tokens of their words.

    Sentences longer than the model's window, and those without any aligned word, are skipped and counted. Raises
    ModelError for a tokenizer that does not say which characters a token stands for.
    """
    if not getattr(tokenizer, "is_fast", False):
        fix = "Probes need a fast tokenizer (tokenizer.json)."
        raise ModelError("the tokenizer does not say which characters its tokens stand for", where="probes", fix=fix)
    prefix = () if bos is None else (bos,)
    result = AlignedTrees(())
    kept = []
    for tree in sorted(trees, key=lambda tree: (tree.dataset, tree.item)):
        coded = tokenizer(tree.text, add_special_tokens=False, return_offsets_mapping=True)
        ids = prefix + tuple(coded["input_ids"])
        if window is not None and len(ids) > window:
            result.skipped[f"longer than the model's window of {window} tokens"] += 1
            continue
        # BOS stands for no characters.
        offsets = [(0, 0)] * len(prefix) + list(coded["offset_mapping"])
        tokens, shared = tokens_of_words([word.span for word in tree.words], offsets)
        if not any(tokens):
            result.skipped["no word could be aligned with tokens"] += 1
            continue
        noise = Sequence(item=tree.item, member=None, n_tokens=len(ids), slots=None)
        encoded = Encoded(tree, (ids,), (noise,), (np.ones(len(ids), dtype=bool),))
        kept.append(AlignedTree(encoded, tree, tokens, shared))
        result.words += len(tokens)
        result.unaligned += sum(not word for word in tokens)
        result.shared += sum(shared)
    result.items = tuple(kept)
    return result
