"""Generated English for training and evaluation; what is bundled or held out never stands in training text."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cache
from itertools import count
from pathlib import Path

from polarlens import bundled
from polarlens.english import MinimalPair, pairs, passages, sentences, write_conllu, write_pairs, write_passages
from polarlens.twins.recipe import BUNDLED_SEED, HELD_OUT_SEED, SPARE_SEED, TRAINING_SEED

BUNDLED_PASSAGES, BUNDLED_PAIRS, BUNDLED_TREES = 500, 1_000, 500
SPARE_PAIRS = 2_000  # to fill up what has members of unequal token counts
HELD_OUT_PAIRS = 2_100
# Documents drawn at a time: half single sentences, a quarter passages, a quarter the grammatical members of pairs.
_SENTENCES, _PASSAGES, _PAIRS = 4_000, 2_000, 2_000


@cache
def held_out_pairs() -> tuple[MinimalPair, ...]:
    """Minimal pairs for evaluation, none of whose members is in the training text."""
    return tuple(pairs(HELD_OUT_SEED, HELD_OUT_PAIRS))


@cache
def never_trained_on() -> frozenset[str]:
    """Every sentence and passage that training text must not contain."""
    both = (*held_out_pairs(), *pairs(BUNDLED_SEED, BUNDLED_PAIRS))
    texts = {text for pair in both for text in (pair.good, pair.bad)}
    texts |= {json.loads(line)["good"] for line in bundled.path(bundled.PAIRS).read_text("utf-8").splitlines()}
    texts |= {sentence.text for sentence in sentences(BUNDLED_SEED, BUNDLED_TREES)}
    return frozenset(texts | set(passages(BUNDLED_SEED, BUNDLED_PASSAGES)))


def training_documents(seed: int) -> Iterator[str]:
    """An endless stream of documents, sentences and passages in turn."""
    barred = never_trained_on()
    for draw in count(TRAINING_SEED * (seed + 1)):
        documents = [sentence.text for sentence in sentences(draw, _SENTENCES)]
        documents += passages(draw, _PASSAGES)
        documents += [pair.good for pair in pairs(draw, _PAIRS)]
        # Kinds alternate: of n documents, document i comes i * stride places on.
        stride = 3_571  # a prime that does not divide the number of documents
        yield from (
            text for i in range(len(documents)) if (text := documents[i * stride % len(documents)]) not in barred
        )


def write_samples(folder: Path, count: Callable[[str], int], trained_on: Collection[str]) -> None:
    """Write the sample data that is bundled: passages, minimal pairs and trees.

    count: tokens of a text. trained_on: documents of the twins' training; no pair is taken from them.
    """
    write_passages(folder / bundled.PASSAGES, passages(BUNDLED_SEED, BUNDLED_PASSAGES))
    write_pairs(folder / bundled.PAIRS, equal_pairs(count, trained_on))
    write_conllu(folder / bundled.TREES, sentences(BUNDLED_SEED, BUNDLED_TREES))


def pair_candidates() -> list[MinimalPair]:
    """What the bundled pairs are chosen from, in this order."""
    return [*pairs(BUNDLED_SEED, BUNDLED_PAIRS), *pairs(SPARE_SEED, SPARE_PAIRS)]


def equal_pairs(count: Callable[[str], int], trained_on: Collection[str]) -> list[MinimalPair]:
    """The first pairs whose members have equal token counts, as many of each phenomenon as the generator makes."""
    wanted = Counter(pair.phenomenon for pair in pairs(BUNDLED_SEED, BUNDLED_PAIRS))
    chosen, seen = [], set[str]()
    for pair in pair_candidates():
        fits = count(pair.good) == count(pair.bad) and pair.good not in seen and pair.good not in trained_on
        if fits and wanted[pair.phenomenon]:
            wanted[pair.phenomenon] -= 1
            seen.add(pair.good)
            chosen.append(pair)
    return chosen
