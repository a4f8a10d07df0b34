"""Sentences and passages: trees, spans, files, spelling, variety; agreement by the checker's own word lists."""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import conllu
import pytest
from agreement_checker import BASES, DETERMINERS, MANY, NOUN_NUMBERS, ONE, PASTS, THIRDS, listed, with_s

from polarlens.english import Sentence, Token, passages, sentences, write_conllu, write_passages
from polarlens.english.grammar import KINDS
from polarlens.english.nouns import CLASSES, COUNTABLE
from polarlens.english.verbs import CLAUSAL, FRAMES, INFINITIVE, LINKING, REFLEXIVE

BE = {"am": ONE, "is": ONE, "'m": ONE, "'s": ONE, "was": ONE, "are": MANY, "'re": MANY, "were": MANY}
OTHER_AUXILIARIES = {"has": ONE, "have": MANY, "does": ONE, "do": MANY}
PRONOUNS = {"he": ONE, "she": ONE, "it": ONE, "i": MANY, "we": MANY, "they": MANY, "who": ONE, "there": ""}
ALSO_VERBS = listed("""
    know believe say think hope hear notice remember claim suspect realize forget discover announce try decide
    refuse agree learn begin prefer expect manage seem appear become remain count collect convince own hate
    thank greet
""")
PAST_OR_PRESENT = PASTS | {"began", "became", "said", "knew", "thought", "heard", "forgot"}


@pytest.fixture(scope="module")
def many() -> list[Sentence]:
    return sentences(7, 10_000)


@pytest.fixture(scope="module")
def some(many: list[Sentence]) -> list[Sentence]:
    return many[:2000]


def test_lexicon_is_as_large_as_promised() -> None:
    verbs = (
        {f.verb for f in FRAMES}
        | {*CLAUSAL, *INFINITIVE, *LINKING}
        | {v for group in REFLEXIVE.values() for v in group}
    )
    assert len(COUNTABLE) >= 250
    assert sum(noun.irregular for noun in COUNTABLE) >= 25
    assert len(verbs) >= 180
    assert not set(CLASSES) & {noun.lemma for noun in COUNTABLE}, "a class and a noun of one name cannot be told apart"


def test_no_sentence_twice_in_ten_thousand(many: list[Sentence]) -> None:
    assert len({s.text for s in many}) == 10_000


def test_all_kinds_occur(some: list[Sentence]) -> None:
    assert {s.kind for s in some} == set(KINDS)


def test_trees(some: list[Sentence]) -> None:
    for s in some:
        heads = [token.head for token in s.tokens]
        assert heads.count(0) == 1, s.text
        assert s.tokens[heads.index(0)].deprel == "root"
        assert all(0 <= head <= len(heads) and head != i for i, head in enumerate(heads, start=1))
        for start in range(1, len(heads) + 1):
            seen = {start}
            while heads[start - 1]:
                start = heads[start - 1]
                assert start not in seen, f"cycle in {s.text}"
                seen.add(start)
        assert _projective(heads), s.text
        assert min(s.depths()) == 0


def _projective(heads: list[int]) -> bool:
    arcs = [(min(i, head), max(i, head)) for i, head in enumerate(heads, start=1) if head]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


def test_function_words_have_no_dependents_but_negation_and_time(some: list[Sentence]) -> None:
    for s in some:
        for token in s.tokens:
            if token.head:
                assert s.tokens[token.head - 1].upos not in {"DET", "AUX", "ADP", "PART", "CCONJ", "SCONJ", "PUNCT"}, (
                    s.text
                )


def test_spans_cover_the_text(some: list[Sentence]) -> None:
    for s in some:
        spans, text = s.spans(), s.text
        assert [text[a:b] for a, b in spans] == [token.form for token in s.tokens]
        gaps = [text[a:b] for (_, a), (b, _) in pairwise(spans)]
        assert set(gaps) <= {"", " "}
        assert spans[0][0] == 0
        assert spans[-1][1] == len(text)


def test_spelling_and_punctuation(many: list[Sentence]) -> None:
    for s in many:
        assert re.fullmatch(r"[A-Z]\S*( \S+)*[.?]", s.text), s.text
        assert s.text.endswith("?") == s.kind.endswith("question")
        assert not re.search(r" [,.?']|can not|  |\b(\w+) \1\b", s.text.lower()), s.text
        for article, word in re.findall(r"\b(an?) (\w+)", s.text.lower()):
            vowel = (word[0] in "aeiou" and not word.startswith(("uni", "use"))) or word == "honest"
            assert (article == "an") == vowel, s.text


def _number(token: Token, tokens: tuple[Token, ...]) -> str:
    """Number that the subject shows, from its form alone where the form tells."""
    index = tokens.index(token) + 1
    if any(other.head == index and other.deprel == "conj" for other in tokens):
        return MANY
    form = token.form.lower()
    if form in PRONOUNS:
        return PRONOUNS[form]
    numbers = NOUN_NUMBERS.get(form, {ONE})
    if len(numbers) == 1:
        return next(iter(numbers))
    determiners = [o.form.lower() for o in tokens if o.head == index and o.form.lower() in DETERMINERS]
    allowed = [DETERMINERS[d] for d in determiners if len(DETERMINERS[d]) == 1]
    return next(iter(allowed[0])) if allowed else ""


def test_verbs_agree_in_form_with_their_subjects(some: list[Sentence]) -> None:
    judged = 0
    for s in some:
        for token in s.tokens:
            if not token.deprel.startswith("nsubj") or token.feats.get("PronType") == "Rel":
                continue
            head = s.tokens[token.head - 1]
            number = _number(token, s.tokens)
            chain = [t for t in s.tokens if t.head == token.head and t.deprel.startswith(("aux", "cop"))] or [head]
            form = chain[0].form.lower()
            first_person = token.form == "I"
            if not number or first_person:
                assert not first_person or form not in {"is", "'s", "are", "'re", "has", "does"} | THIRDS, s.text
                continue
            if form in BE:
                assert BE[form] == number, s.text
            elif form in OTHER_AUXILIARIES:
                assert OTHER_AUXILIARIES[form] == number, s.text
            elif form in THIRDS | {with_s(verb) for verb in ALSO_VERBS}:
                assert number == ONE, s.text
            elif form in BASES | set(ALSO_VERBS) and form not in PAST_OR_PRESENT:
                assert number == MANY, s.text
            judged += form in BE or form in OTHER_AUXILIARIES or form in THIRDS | BASES | set(ALSO_VERBS)
    assert judged > 1000


def test_number_feature_of_nouns_is_that_of_the_form(some: list[Sentence]) -> None:
    names = {"Sing": ONE, "Plur": MANY}
    for s in some:
        for token in s.tokens:
            if token.upos == "NOUN" and token.form.lower() in NOUN_NUMBERS:
                assert names[token.feats["Number"]] in NOUN_NUMBERS[token.form.lower()], s.text


def test_subject_numbers_are_about_balanced(many: list[Sentence]) -> None:
    numbers = Counter(
        token.feats["Number"] for s in many for token in s.tokens if token.deprel == "nsubj" and token.upos == "NOUN"
    )
    assert 0.42 < numbers["Plur"] / sum(numbers.values()) < 0.58


def test_conllu_is_read_by_the_conllu_package(some: list[Sentence], tmp_path: Path) -> None:
    path = tmp_path / "trees.conllu"
    write_conllu(path, some)
    parsed = conllu.parse(path.read_text(encoding="utf-8"))
    assert len(parsed) == 2000
    contracted = 0
    for expected, got in zip(some, parsed, strict=True):
        assert got.metadata["text"] == expected.text
        words = [token for token in got if isinstance(token["id"], int)]
        assert [token["form"] for token in words] == [token.form for token in expected.tokens]
        assert [token["head"] for token in words] == [token.head for token in expected.tokens]
        assert [token["upos"] for token in words] == [token.upos for token in expected.tokens]
        assert [token["feats"] or {} for token in words] == [token.feats for token in expected.tokens]
        assert got.to_tree().token["deprel"] == "root"
        ranges = [token for token in got if not isinstance(token["id"], int)]
        contracted += len(ranges)
        inside = {i for token in ranges for i in range(token["id"][0], token["id"][2] + 1)}
        assert not any(token["misc"] for token in words if token["id"] in inside), "only the range says SpaceAfter"
        assert _detokenised(got) == expected.text
    assert contracted > 50


def _detokenised(sentence: conllu.TokenList) -> str:
    """The text by the rules of CoNLL-U: a range stands for its words, SpaceAfter=No joins."""
    text, last = "", 0
    for token in sentence:
        if isinstance(token["id"], tuple):
            last = token["id"][2]
        elif token["id"] <= last:
            continue
        text += token["form"] + ("" if (token["misc"] or {}).get("SpaceAfter") == "No" else " ")
    return text.rstrip()


def test_passages(tmp_path: Path) -> None:
    made = passages(5, 2000)
    assert len(set(made)) == 2000
    lengths = Counter(len(re.findall(r"[.?](?: |$)", passage)) for passage in made)
    assert set(lengths) == {2, 3, 4}
    for passage in made:
        assert re.fullmatch(r"(?:[A-Z][^.?]*[^ .?][.?](?: |$))+", passage), passage
        assert re.search(r"\b(he|she|it|they|him|her|them|his|their)\b", passage.lower()), passage
    write_passages(tmp_path / "passages.txt", made)
    assert (tmp_path / "passages.txt").read_bytes().decode() == "".join(f"{passage}\n" for passage in made)
