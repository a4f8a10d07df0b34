"""Labels against hand-written analyses: 40 sentences that the generator makes, and some built from chosen words."""

import pytest

from polarlens.english import Sentence, clauses, phrases, sentences
from polarlens.english.clauses import finish
from polarlens.english.grammar import KINDS
from polarlens.english.nouns import BY_LEMMA
from polarlens.english.phrases import noun_phrase

# One token: form UPOS head relation depth. Written by hand after the UD English guidelines (EWT).
BY_HAND = """
intransitive:
A DET 2 det 2 | deer NOUN 4 nsubj 1 | will AUX 4 aux 1 | run VERB 0 root 0 | quickly ADV 4 advmod 1 |
. PUNCT 4 punct 1

intransitive:
The DET 2 det 2 | women NOUN 4 nsubj 1 | have AUX 4 aux 1 | relaxed VERB 0 root 0 | . PUNCT 4 punct 1

intransitive:
The DET 2 det 2 | geese NOUN 7 nsubj 1 | beside ADP 5 case 3 | the DET 5 det 3 | patients NOUN 2 nmod 2 |
rarely ADV 7 advmod 1 | slept VERB 0 root 0 | . PUNCT 7 punct 1

transitive:
Those DET 2 det 2 | nuns NOUN 4 nsubj 1 | sometimes ADV 4 advmod 1 | hide VERB 0 root 0 | these DET 6 det 2 |
boxes NOUN 4 obj 1 | at ADP 9 case 2 | the DET 9 det 2 | market NOUN 4 obl 1 | . PUNCT 4 punct 1

transitive:
George PROPN 3 nsubj 1 | has AUX 3 aux 1 | written VERB 0 root 0 | the DET 5 det 2 | postcard NOUN 3 obj 1 |
. PUNCT 3 punct 1

prepositional:
She PRON 4 nsubj 1 | is AUX 4 aux 1 | n't PART 4 advmod 1 | dreaming VERB 0 root 0 | about ADP 6 case 2 |
Henry PROPN 4 obl 1 | . PUNCT 4 punct 1

ditransitive:
His PRON 2 nmod:poss 2 | nephew NOUN 3 nsubj 1 | showed VERB 0 root 0 | Henry PROPN 3 iobj 1 | the DET 6 det 2 |
newspaper NOUN 3 obj 1 | about ADP 10 case 3 | the DET 10 det 3 | quiet ADJ 10 amod 3 | cities NOUN 6 nmod 2 |
. PUNCT 3 punct 1

ditransitive:
These DET 2 det 2 | butchers NOUN 3 nsubj 1 | offered VERB 0 root 0 | our PRON 5 nmod:poss 2 | apples NOUN 3 obj 1 |
to ADP 8 case 2 | the DET 8 det 2 | neighbors NOUN 3 obl 1 | . PUNCT 3 punct 1

ditransitive:
The DET 3 det 2 | poor ADJ 3 amod 2 | judges NOUN 6 nsubj 1 | do AUX 6 aux 1 | not PART 6 advmod 1 |
send VERB 0 root 0 | the DET 8 det 2 | report NOUN 6 obj 1 | to ADP 11 case 2 | two NUM 11 nummod 2 |
nurses NOUN 6 obl 1 | . PUNCT 6 punct 1

modified:
The DET 2 det 2 | woman NOUN 7 nsubj 1 | with ADP 5 case 3 | the DET 5 det 3 | dog NOUN 2 nmod 2 | will AUX 7 aux 1
| bring VERB 0 root 0 | this DET 9 det 2 | judge NOUN 7 iobj 1 | these DET 11 det 2 | pillows NOUN 7 obj 1 |
tonight NOUN 7 obl:unmarked 1 | . PUNCT 7 punct 1

modified:
The DET 2 det 2 | hens NOUN 7 nsubj 1 | behind ADP 5 case 3 | the DET 5 det 3 | tree NOUN 2 nmod 2 |
were AUX 7 cop 1 | fast ADJ 0 root 0 | . PUNCT 7 punct 1

copular:
We PRON 3 nsubj 1 | 're AUX 3 cop 1 | tired ADJ 0 root 0 | . PUNCT 3 punct 1

copular:
Their PRON 2 nmod:poss 2 | key NOUN 5 nsubj 1 | was AUX 5 cop 1 | n't PART 5 advmod 1 | old ADJ 0 root 0 |
. PUNCT 5 punct 1

nominal:
Julia PROPN 5 nsubj 1 | was AUX 5 cop 1 | a DET 5 det 1 | lazy ADJ 5 amod 1 | carpenter NOUN 0 root 0 |
. PUNCT 5 punct 1

located:
The DET 2 det 2 | spoons NOUN 6 nsubj 1 | were AUX 6 cop 1 | in ADP 6 case 1 | the DET 6 det 1 |
basket NOUN 0 root 0 | . PUNCT 6 punct 1

linking:
The DET 2 det 2 | flower NOUN 3 nsubj 1 | seems VERB 0 root 0 | green ADJ 3 xcomp 1 | . PUNCT 3 punct 1

passive:
Some DET 2 det 2 | pictures NOUN 5 nsubj:pass 1 | will AUX 5 aux 1 | be AUX 5 aux:pass 1 | chosen VERB 0 root 0 |
by ADP 7 case 2 | Nora PROPN 5 obl:agent 1 | . PUNCT 5 punct 1

passive:
Her PRON 2 nmod:poss 2 | brother NOUN 5 nsubj:pass 1 | will AUX 5 aux 1 | be AUX 5 aux:pass 1 |
ignored VERB 0 root 0 | next ADJ 7 amod 2 | week NOUN 5 obl:unmarked 1 | . PUNCT 5 punct 1

passive:
The DET 2 det 2 | sausages NOUN 5 nsubj:pass 1 | were AUX 5 aux:pass 1 | not PART 5 advmod 1 | eaten VERB 0 root 0 |
. PUNCT 5 punct 1

passive:
Some DET 2 det 2 | wagons NOUN 6 nsubj:pass 1 | wo AUX 6 aux 1 | n't PART 6 advmod 1 | be AUX 6 aux:pass 1 |
repaired VERB 0 root 0 | . PUNCT 6 punct 1

existential:
There PRON 2 expl 1 | are VERB 0 root 0 | four NUM 4 nummod 2 | ponies NOUN 2 nsubj 1 | in ADP 7 case 2 |
the DET 7 det 2 | forest NOUN 2 obl 1 | . PUNCT 2 punct 1

reflexive:
The DET 2 det 2 | driver NOUN 5 nsubj 1 | can AUX 5 aux 1 | not PART 5 advmod 1 | amuse VERB 0 root 0 |
himself PRON 5 obj 1 | . PUNCT 5 punct 1

reflexive:
The DET 2 det 2 | turtles NOUN 3 nsubj 1 | frightened VERB 0 root 0 | themselves PRON 3 obj 1 | . PUNCT 3 punct 1

yes-no question:
Were AUX 5 cop 1 | the DET 3 det 2 | pillows NOUN 5 nsubj 1 | too ADV 5 advmod 1 | old ADJ 0 root 0 |
? PUNCT 5 punct 1

yes-no question:
Did AUX 3 aux 1 | she PRON 3 nsubj 1 | look VERB 0 root 0 | at ADP 6 case 2 | a DET 6 det 2 | gardener NOUN 3 obl 1
| ? PUNCT 3 punct 1

wh question:
What PRON 5 obj 1 | did AUX 5 aux 1 | the DET 4 det 2 | wolf NOUN 5 nsubj 1 | chase VERB 0 root 0 |
? PUNCT 5 punct 1

wh question:
Who PRON 2 nsubj 1 | visits VERB 0 root 0 | two NUM 4 nummod 2 | librarians NOUN 2 obj 1 | ? PUNCT 2 punct 1

wh question:
Why ADV 6 advmod 1 | did AUX 6 aux 1 | the DET 5 det 2 | famous ADJ 5 amod 2 | clerks NOUN 6 nsubj 1 |
sneeze VERB 0 root 0 | ? PUNCT 6 punct 1

subject relative:
My PRON 2 nmod:poss 2 | grandchild NOUN 3 nsubj 1 | watched VERB 0 root 0 | the DET 5 det 2 | poets NOUN 3 obj 1 |
who PRON 7 nsubj 3 | wrote VERB 5 acl:relcl 2 | to ADP 11 case 4 | Rosa PROPN 11 nmod:poss 4 | 's PART 9 case 5 |
niece NOUN 7 obl 3 | . PUNCT 3 punct 1

subject relative:
That DET 2 det 2 | neighbor NOUN 7 nsubj 1 | that PRON 4 nsubj 3 | complained VERB 2 acl:relcl 2 | does AUX 7 aux 1
| not PART 7 advmod 1 | admire VERB 0 root 0 | Susan PROPN 7 obj 1 | . PUNCT 7 punct 1

object relative:
The DET 2 det 2 | harbor NOUN 7 nsubj 1 | the DET 4 det 4 | waiter NOUN 5 nsubj 3 | visited VERB 2 acl:relcl 2 |
is AUX 7 cop 1 | beautiful ADJ 0 root 0 | . PUNCT 7 punct 1

object relative:
The DET 2 det 2 | painters NOUN 3 nsubj 1 | protect VERB 0 root 0 | this DET 5 det 2 | waitress NOUN 3 obj 1 |
that PRON 9 obj 3 | his PRON 8 nmod:poss 4 | grandfather NOUN 9 nsubj 3 | ignored VERB 5 acl:relcl 2 |
. PUNCT 3 punct 1

complement:
The DET 3 det 2 | honest ADJ 3 amod 2 | carpenter NOUN 4 nsubj 1 | claims VERB 0 root 0 | that SCONJ 10 mark 2 |
their PRON 7 nmod:poss 3 | uncles NOUN 10 nsubj 2 | were AUX 10 cop 2 | quite ADV 10 advmod 2 | kind ADJ 4 ccomp 1 |
. PUNCT 4 punct 1

infinitive:
The DET 2 det 2 | waitress NOUN 3 nsubj 1 | tried VERB 0 root 0 | to PART 5 mark 2 | wait VERB 3 xcomp 1 |
for ADP 8 case 3 | his PRON 8 nmod:poss 3 | niece NOUN 5 obl 2 | patiently ADV 5 advmod 2 | . PUNCT 3 punct 1

coordinated clauses:
A DET 3 det 2 | quiet ADJ 3 amod 2 | princess NOUN 4 nsubj 1 | cried VERB 0 root 0 | , PUNCT 11 punct 2 |
and CCONJ 11 cc 2 | this DET 8 det 3 | gardener NOUN 11 nsubj 2 | did AUX 11 aux 2 | n't PART 11 advmod 2 |
write VERB 4 conj 1 | to ADP 13 case 3 | Alice PROPN 11 obl 2 | . PUNCT 4 punct 1

coordinated verbs:
He PRON 2 nsubj 1 | supported VERB 0 root 0 | the DET 4 det 2 | kings NOUN 2 obj 1 | with ADP 7 case 3 |
the DET 7 det 3 | guitar NOUN 4 nmod 2 | and CCONJ 9 cc 2 | picked VERB 2 conj 1 | the DET 11 det 3 |
rose NOUN 9 obj 2 | in ADP 14 case 4 | the DET 14 det 4 | fields NOUN 11 nmod 3 | . PUNCT 2 punct 1

coordinated subjects:
The DET 2 det 2 | gardener NOUN 7 nsubj 1 | and CCONJ 5 cc 3 | the DET 5 det 3 | doctor NOUN 2 conj 2 |
are AUX 7 cop 1 | hungry ADJ 0 root 0 | . PUNCT 7 punct 1

adverbial:
If SCONJ 4 mark 2 | Edward PROPN 4 nsubj 2 | is AUX 4 cop 2 | thirsty ADJ 8 advcl 1 | , PUNCT 4 punct 2 |
he PRON 8 nsubj 1 | will AUX 8 aux 1 | shout VERB 0 root 0 | . PUNCT 8 punct 1

adverbial:
Alice PROPN 2 nsubj 1 | shouted VERB 0 root 0 | when ADV 5 advmod 2 | she PRON 5 nsubj 2 | found VERB 2 advcl 1 |
the DET 7 det 3 | coats NOUN 5 obj 2 | in ADP 10 case 3 | the DET 10 det 3 | hospital NOUN 5 obl 2 |
. PUNCT 2 punct 1

fronted time:
Last ADJ 2 amod 2 | week NOUN 7 obl:unmarked 1 | , PUNCT 2 punct 2 | the DET 6 det 2 | small ADJ 6 amod 2 |
daisies NOUN 7 nsubj 1 | bloomed VERB 0 root 0 | . PUNCT 7 punct 1
""".strip().split("\n\n")


def analysis(sentence: Sentence) -> str:
    return " | ".join(
        f"{token.form} {token.upos} {token.head} {token.deprel} {depth}"
        for token, depth in zip(sentence.tokens, sentence.depths(), strict=True)
    )


@pytest.fixture(scope="module")
def generated() -> dict[str, Sentence]:
    return {" ".join(token.form for token in s.tokens): s for s in sentences(2026, 600)}


@pytest.mark.parametrize("line", BY_HAND, ids=lambda line: line.split(":")[0])
def test_generated_sentences_have_the_labels_written_by_hand(line: str, generated: dict[str, Sentence]) -> None:
    kind, _, written = line.partition(":\n")
    expected = " ".join(written.split("\n"))
    forms = " ".join(token.split()[0] for token in expected.split(" | "))
    assert forms in generated, "the lexicon or the grammar has changed: analyse another sentence of this kind by hand"
    assert generated[forms].kind == kind
    assert analysis(generated[forms]) == expected


def test_every_kind_of_sentence_is_analysed_by_hand() -> None:
    assert {line.partition(":")[0] for line in BY_HAND} == set(KINDS)


def _phrase(lemma: str, number: str = "Sing", determiner: str = "the", *adjectives: str) -> phrases.Node:
    return noun_phrase(BY_LEMMA[lemma], number, determiner, adjectives)


def test_article_follows_the_sound_of_the_next_word() -> None:
    for words, expected in {
        ("a", "egg"): "An egg fell.",
        ("a", "egg", "big"): "A big egg fell.",
        ("a", "boy", "honest"): "An honest boy fell.",
        ("a", "uniform"): "A uniform fell.",
        ("a", "cup", "useful"): "A useful cup fell.",
        ("a", "umbrella"): "An umbrella fell.",
    }.items():
        determiner, noun, *adjectives = words
        subject = _phrase(noun, "Sing", determiner, *adjectives)
        sentence = finish(clauses.clause(subject, clauses.predicate("fall", "past", subject)), "intransitive")
        assert sentence.text == expected
        assert sentence.tokens[0].lemma == "a"


def test_genitive_of_a_plural_is_an_apostrophe() -> None:
    subject = noun_phrase(BY_LEMMA["book"], "Sing", owner=phrases.genitive(_phrase("teacher", "Plur")))
    sentence = finish(clauses.clause(subject, clauses.predicate("fall", "past", subject)), "intransitive")
    assert sentence.text == "The teachers' book fell."
    assert analysis(sentence) == (
        "The DET 2 det 3 | teachers NOUN 4 nmod:poss 2 | ' PART 2 case 3 | book NOUN 5 nsubj 1 | fell VERB 0 root 0 "
        "| . PUNCT 5 punct 1"
    )
    assert sentence.ranges == ((2, 3),)


@pytest.mark.parametrize(
    ("tense", "negation", "passive", "written"),
    [
        ("present", "", False, "The mice eat."),
        ("past", "n't", False, "The mice didn't eat."),
        ("present", "not", False, "The mice do not eat."),
        ("will", "n't", False, "The mice won't eat."),
        ("can", "n't", False, "The mice can't eat."),
        ("can", "not", False, "The mice cannot eat."),
        ("might", "n't", False, "The mice might not eat."),
        ("past perfect", "", False, "The mice had eaten."),
        ("present progressive", "n't", False, "The mice aren't eating."),
        ("past progressive", "", True, "The mice were being eaten."),
        ("present perfect", "not", True, "The mice have not been eaten."),
        ("past", "n't", True, "The mice weren't eaten."),
    ],
)
def test_verb_forms(tense: str, negation: str, passive: bool, written: str) -> None:
    subject = _phrase("mouse", "Plur")
    built = clauses.predicate("eat", tense, subject, negation=negation, passive=passive)
    assert finish(clauses.clause(subject, built), "intransitive").text == written


def test_features_and_lemmas_of_a_sentence() -> None:
    subject = _phrase("mouse", "Plur", "these")
    head = clauses.clause(subject, clauses.predicate("have", "present perfect", subject))
    head.add(phrases.pronoun("they", "Acc"), "obj")
    these, mice, have, had, them, _ = finish(head, "transitive").tokens
    assert (these.lemma, these.feats) == ("this", {"Number": "Plur", "PronType": "Dem"})
    assert (mice.lemma, mice.feats) == ("mouse", {"Number": "Plur"})
    assert (have.lemma, have.upos) == ("have", "AUX")
    assert have.feats == {"Mood": "Ind", "Number": "Plur", "Person": "3", "Tense": "Pres", "VerbForm": "Fin"}
    assert (had.form, had.lemma, had.feats) == ("had", "have", {"Tense": "Past", "VerbForm": "Part"})
    assert (them.lemma, them.feats) == ("they", {"Case": "Acc", "Number": "Plur", "Person": "3", "PronType": "Prs"})
