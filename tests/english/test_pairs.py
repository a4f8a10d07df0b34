"""Minimal pairs, judged by a parser that knows nothing of the generator, and counted for balance."""

import json
import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
from agreement_checker import ADJECTIVES, IRREGULAR_PLURALS, MANY, NOUN_NUMBERS, ONE, accepts

from polarlens.english import MinimalPair, pairs, write_pairs
from polarlens.english.contrasts import PHENOMENA
from polarlens.errors import UsageError

ATTRACTED = (
    "agreement_across_prepositional_phrase",
    "agreement_across_subject_relative",
    "agreement_across_object_relative",
)


@pytest.fixture(scope="module")
def made() -> list[MinimalPair]:
    return pairs(11, 2800)


def _difference(pair: MinimalPair) -> int:
    """Position of the one word that differs."""
    good, bad = pair.good.split(" "), pair.bad.split(" ")
    assert len(good) == len(bad), pair
    (position,) = (i for i, (a, b) in enumerate(zip(good, bad, strict=True)) if a != b)
    return position


@pytest.mark.parametrize(
    ("sentence", "good"),
    [
        ("The boys near the car are tired.", True),
        ("The boys near the car is tired.", False),
        ("The cat that the dogs chase sleeps.", True),
        ("The cat that the dogs chase sleep.", False),
        ("The cat that the dogs chases sleeps.", False),
        ("The nurses who had seen the thief don't work.", True),
        ("The nurses who had seen the thief doesn't work.", False),
        ("Anna's brother wore these hats yesterday.", True),
        ("Anna's brother wore these hat yesterday.", False),
        ("Two geese hid themselves.", True),
        ("Two geese hid itself.", False),
        ("Every ox has slept in the barn.", True),
        ("Every oxen has slept in the barn.", False),
        ("A apple fell.", False),
        ("Dog sleeps.", False),
        ("The boys the car.", False),
    ],
)
def test_the_checker_itself(sentence: str, good: bool) -> None:
    assert accepts(sentence) == good


def test_checker_accepts_every_good_and_rejects_every_bad_member(made: list[MinimalPair]) -> None:
    assert [pair.good for pair in made if not accepts(pair.good)] == []
    assert [pair.bad for pair in made if accepts(pair.bad)] == []


def test_one_word_differs_and_it_is_not_the_first(made: list[MinimalPair]) -> None:
    assert all(_difference(pair) > 0 for pair in made)


@pytest.fixture(scope="module")
def many() -> list[MinimalPair]:
    return pairs(2, 10_000)


def test_the_bad_verb_is_not_a_past_tense(many: list[MinimalPair]) -> None:
    """The boy reads, the boy read: the second would be good English too."""
    assert not [pair for pair in many if {"read", "reads"} & set(_changed_words(pair))]


def _changed_words(pair: MinimalPair) -> tuple[str, str]:
    position = _difference(pair)
    return pair.good.rstrip(".").split(" ")[position], pair.bad.rstrip(".").split(" ")[position]


def test_no_sentence_twice_in_ten_thousand_pairs(many: list[MinimalPair]) -> None:
    assert len({text for pair in many for text in (pair.good, pair.bad)}) == 20_000
    assert len({pair.id for pair in many}) == 10_000


def test_numbers_are_balanced_in_each_phenomenon(made: list[MinimalPair]) -> None:
    counts = Counter((pair.phenomenon, pair.number, pair.attractor_number) for pair in made)
    assert {phenomenon for phenomenon, _, _ in counts} == set(PHENOMENA)
    for name in PHENOMENA:
        cells = {key[1:]: n for key, n in counts.items() if key[0] == name}
        attractors = ("singular", "plural") if name in ATTRACTED else (None,)
        assert cells == {(n, a): 400 // (2 * len(attractors)) for n in ("singular", "plural") for a in attractors}


def test_fields_say_what_the_words_say(made: list[MinimalPair]) -> None:
    """Number, attractor and length are read off the words of the good sentence, by the checker's noun list."""
    names = {ONE: "singular", MANY: "plural"}
    for pair in made:
        words, position = pair.good.rstrip(".").split(" "), _difference(pair)
        nouns = [
            (i, names[next(iter(NOUN_NUMBERS[word]))])
            for i, word in enumerate(w.lower() for w in words)
            if len(NOUN_NUMBERS.get(word, ())) == 1
        ]
        if pair.phenomenon == "determiner_noun_agreement":
            assert dict(nouns)[position] == pair.number
            start = max(i for i in range(position) if words[i].lower() not in ADJECTIVES)
            assert pair.dependency_length == position - start - 1
            continue
        subject, number = nouns[0]
        assert number == pair.number, pair
        assert pair.dependency_length == position - subject - 1, pair
        between = [n for i, n in nouns[1:] if i < position]
        if pair.attractor_number is None:
            assert between == []
        else:
            assert between[-1] == pair.attractor_number, pair


def test_irregular_means_irregular(made: list[MinimalPair]) -> None:
    forms = set(IRREGULAR_PLURALS) | set(IRREGULAR_PLURALS.values())
    for pair in made:
        subject = next(w for w in pair.good.lower().rstrip(".").split() if w in NOUN_NUMBERS)
        if pair.phenomenon == "irregular_plural_subject_verb_agreement":
            assert subject in forms
            assert pair.cluster in IRREGULAR_PLURALS
        elif pair.phenomenon == "regular_plural_subject_verb_agreement":
            assert subject not in forms


def test_clusters_are_many_and_none_is_large(made: list[MinimalPair]) -> None:
    for name in PHENOMENA:
        clusters = Counter(pair.cluster for pair in made if pair.phenomenon == name)
        assert len(clusters) >= 20
        assert max(clusters.values()) <= 0.12 * clusters.total()


@pytest.mark.parametrize(
    ("noun", "wrong"), [("queen", "himself"), ("king", "herself"), ("women", "himself"), ("uncles", "herself")]
)
def test_reflexives_have_the_sex_of_their_antecedent(noun: str, wrong: str, made: list[MinimalPair]) -> None:
    reflexive = [p for p in made if p.phenomenon == "reflexive_agreement" and re.search(rf"\b{noun}\b", p.good)]
    assert reflexive
    assert not any(wrong in f"{pair.good} {pair.bad}" for pair in reflexive)


def test_some_phenomena_alone() -> None:
    chosen = ("reflexive_agreement", "determiner_noun_agreement")
    few = pairs(3, 9, phenomena=chosen)
    assert [pair.phenomenon for pair in few] == [chosen[i % 2] for i in range(9)]


def test_unknown_phenomenon_is_named() -> None:
    with pytest.raises(UsageError, match=r"gapping.*regular_plural_subject_verb_agreement"):
        pairs(0, 1, phenomena=("gapping",))
    with pytest.raises(UsageError, match="no phenomenon named"):
        pairs(0, 1, phenomena=())


def test_json_lines(made: list[MinimalPair], tmp_path: Path) -> None:
    write_pairs(tmp_path / "pairs.jsonl", made[:70])
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_bytes().decode().splitlines()]
    assert rows == [asdict(pair) for pair in made[:70]]
    assert set(rows[0]) >= {"id", "good", "bad", "phenomenon", "cluster", "attractor_number", "dependency_length"}
