"""Words to tokens: by hand, and on a real tokenizer by decoding the tokens of every word."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from polarlens.data.items import Tree, Word, identity
from polarlens.data.read import read_trees
from polarlens.english import sentences, write_conllu
from polarlens.errors import ModelError
from polarlens.probing.alignment import align_trees, tokens_of_words
from tiny import tiny_tokenizer


def tree(text: str, spans: list[tuple[int, int] | None]) -> Tree:
    words = [Word("w", "X", 0, None, 0, span) for span in spans]
    return Tree(text, tuple(words), identity(text), identity(text), "t.conllu", 1)


def test_by_hand() -> None:
    #          BOS     " We"   "ca"    "n't, " (one token over two words)  "it"
    offsets = [(0, 0), (0, 2), (3, 5), (5, 9), (10, 12)]
    spans: list[tuple[int, int] | None] = [(0, 2), (3, 5), (5, 8), (8, 9), (10, 12), None, (20, 22)]
    tokens, shared = tokens_of_words(spans, offsets)
    assert tokens == ((1,), (2,), (3,), (3,), (4,), (), ())
    assert shared == (False, False, True, True, False, False, False)


def test_a_leading_space_in_a_token_belongs_to_no_word() -> None:
    tokens, shared = tokens_of_words([(0, 1), (2, 4)], [(0, 1), (1, 3), (3, 4)])
    assert tokens == ((0,), (1, 2))
    assert not any(shared)


def test_the_tokens_of_a_word_spell_it(tmp_path: Path) -> None:
    write_conllu(tmp_path / "a.conllu", sentences(5, 30))
    trees = read_trees([str(tmp_path / "a.conllu")]).items
    tokenizer = tiny_tokenizer()
    found = align_trees(trees, tokenizer, 0, window=None)
    assert len(found.items) == 30
    assert (found.unaligned, found.shared) == (0, 0)
    assert found.words == sum(len(t.words) for t in trees)
    for item in found.items:
        (ids,) = item.encoded.sequences
        assert ids[0] == 0
        assert all(0 not in tokens for tokens in item.tokens)  # BOS is never probed
        for word, tokens in zip(item.tree.words, item.tokens, strict=True):
            assert tokenizer.decode([ids[i] for i in tokens]).strip() == word.form


def test_what_is_left_out_is_counted() -> None:
    long, short, lost = tree("cat " * 50, [(0, 3)]), tree("The cat", [(0, 3), None]), tree("dog", [None])
    found = align_trees([long, short, lost], tiny_tokenizer(), 0, window=20)
    assert [item.tree for item in found.items] == [short]
    assert found.skipped == {
        "longer than the model's window of 20 tokens": 1,
        "no word could be aligned with tokens": 1,
    }
    assert (found.words, found.unaligned) == (2, 1)
    without = align_trees([short], tiny_tokenizer(), None, window=20).items[0]
    assert without.tokens[0][0] == 0


def test_the_order_of_the_trees_does_not_matter() -> None:
    trees = [tree(text, [(0, 1)]) for text in ("a b", "c", "d e f", "g")]
    one, other = (align_trees(order, tiny_tokenizer(), 0, window=None).items for order in (trees, trees[::-1]))
    assert [item.tree.item for item in one] == [item.tree.item for item in other]


def test_a_tokenizer_without_offsets_is_refused() -> None:
    with pytest.raises(ModelError, match="does not say which characters"):
        align_trees([tree("a", [(0, 1)])], SimpleNamespace(is_fast=False), 0, window=None)
