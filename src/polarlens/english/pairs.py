"""Minimal pairs: a good and a bad sentence that differ in one word, which is never the first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from polarlens.english.clauses import finish
from polarlens.english.contrasts import OTHER, PHENOMENA, Contrast
from polarlens.english.draw import Draw
from polarlens.errors import UsageError

_NUMBER = {"Sing": "singular", "Plur": "plural"}
_PATIENCE = 2000


@dataclass(frozen=True)
class MinimalPair:
    """A minimal pair of one phenomenon.

    id: derived from seed and position. good, bad: the sentences, with the same number of words.
    cluster: lemma of the word on which the contrast turns. For agreement of subject and verb it is the main verb, or
    the subject noun where the verb is be, and always the noun for irregular plurals; for determiners the noun; for
    reflexives the verb.
    number: `singular` or `plural`, of the subject, determiner or antecedent.
    attractor_number: of the noun in between, None where the phenomenon has no attractor.
    dependency_length: written words (don't is one) between the two that agree.
    """

    id: str
    good: str
    bad: str
    phenomenon: str
    cluster: str
    number: str
    attractor_number: str | None
    dependency_length: int


def _pair(contrast: Contrast, name: str, number: str, attractor: str | None) -> MinimalPair:
    good = finish(contrast.root, name)
    position = contrast.target.index - 1
    token = good.tokens[position]
    written = sum(before.space_after for before in good.tokens[contrast.controller.index - 1 : position])
    changed = (*good.tokens[:position], replace(token, form=contrast.other), *good.tokens[position + 1 :])
    return MinimalPair(
        "",
        good.text,
        replace(good, tokens=changed).text,
        name,
        contrast.cluster,
        _NUMBER[number],
        _NUMBER[attractor] if attractor else None,
        written - 1,
    )


def _cells(attracted: bool) -> list[tuple[str, str | None]]:
    """Combinations of the two numbers, which take turns."""
    if not attracted:
        return [(number, None) for number in OTHER]
    return [(number, attractor) for attractor in OTHER for number in OTHER]


def pairs(seed: int, n: int, phenomena: Sequence[str] = tuple(PHENOMENA)) -> list[MinimalPair]:
    """`n` different minimal pairs; the phenomena take turns, and within one the numbers do.

    No sentence occurs twice, good or bad. The first k pairs are the same whatever `n` is.

    Raises
    ------
    UsageError: a phenomenon that does not exist, none at all, or more pairs than the lexicon gives.
    """
    unknown = sorted(set(phenomena) - set(PHENOMENA))
    if unknown or not phenomena:
        what = f"no such phenomenon: {', '.join(unknown)}" if unknown else "no phenomenon named"
        raise UsageError(what, where="phenomena", fix=f"Choose from {', '.join(PHENOMENA)}")
    chosen: list[MinimalPair] = []
    seen: set[str] = set()
    for k in range(n):
        name, turn = phenomena[k % len(phenomena)], k // len(phenomena)
        builder, attracted = PHENOMENA[name]
        cells = _cells(attracted)
        number, attractor = cells[turn % len(cells)]
        for attempt in count():
            if attempt == _PATIENCE:
                raise UsageError(f"found only {turn} different pairs of {name}", where="n", fix="Ask for fewer pairs")
            pair = _pair(
                builder(Draw("pair", seed, name, turn, attempt), number, attractor or ""), name, number, attractor
            )
            if pair.good not in seen and pair.bad not in seen:
                break
        seen |= {pair.good, pair.bad}
        chosen.append(replace(pair, id=f"{seed}-{k}"))
    return chosen
