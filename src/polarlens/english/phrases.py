"""Builders of noun, adjective and adverbial phrases: chosen words in, labelled trees out (Universal Dependencies)."""

from polarlens.english.nouns import BY_LEMMA, Noun
from polarlens.english.tree import Node
from polarlens.english.words import DETERMINERS, PRONOUNS, TIME_WORDS


def noun_phrase(
    noun: Noun,
    number: str = "Sing",
    determiner: str = "",
    adjectives: tuple[str, ...] = (),
    owner: Node | None = None,
) -> Node:
    """A noun or name with determiner, possessor and attributive adjectives, in that order."""
    form = noun.plural if number == "Plur" else noun.lemma
    node = Node(form, noun.lemma, "PROPN" if noun.kind == "name" else "NOUN", {"Number": number})
    if determiner:
        lemma, upos, deprel, features = DETERMINERS[determiner]
        node.add(Node(determiner, lemma, upos, dict(features)), deprel, before=True)
    if owner:
        node.add(owner, "nmod:poss", before=True)
    for adjective in adjectives:
        node.add(adjective_phrase(adjective), "amod", before=True)
    return node


def pronoun(nominative: str, case: str = "Nom") -> Node:
    """Personal pronoun named by its nominative. `case`: Nom, Acc, Gen (possessive) or Reflex."""
    accusative, possessive, reflexive, features = PRONOUNS[nominative]
    form = {"Nom": nominative, "Acc": accusative, "Gen": possessive, "Reflex": reflexive}[case]
    lemma = nominative if case in ("Nom", "Acc") else form
    extra = {"Gen": {"Case": "Gen", "Poss": "Yes"}, "Reflex": {"Case": "Acc", "Reflex": "Yes"}}
    return Node(form, lemma, "PRON", features | extra.get(case, {"Case": case}))


def genitive(owner: Node) -> Node:
    """The phrase with 's, or with the apostrophe alone after a plural in -s."""
    plural_s = owner.form.endswith("s") and owner.feats.get("Number") == "Plur"
    return owner.add(Node("'" if plural_s else "'s", "'s", "PART", glued=True), "case")


def adjective_phrase(adjective: str, intensifier: str = "") -> Node:
    """An adjective, with an adverb of degree if one is given."""
    node = Node(adjective, adjective, "ADJ", {"Degree": "Pos"})
    return node.add(adverb(intensifier), "advmod", before=True) if intensifier else node


def adverb(form: str) -> Node:
    """An adverb."""
    return Node(form, form, "ADV")


def prepositional(preposition: str, phrase: Node) -> Node:
    """The phrase with its preposition; `phrase` stays the head, as in UD."""
    phrase.before.insert(0, Node(preposition, preposition, "ADP", deprel="case"))
    return phrase


def time_phrase(text: str) -> Node:
    """A bare time phrase such as `yesterday` or `last week`, to be attached as obl:unmarked."""
    *modifiers, head = text.split()
    node = Node(head, head, "NOUN", {"Number": "Sing"})
    for form in modifiers:
        upos, deprel, features = TIME_WORDS[form]
        node.add(Node(form, form, upos, dict(features)), deprel, before=True)
    return node


def coordinate(first: Node, second: Node, conjunction: str = "and", *, comma: bool = False) -> Node:
    """Two phrases or clauses joined; the first is the head."""
    joint = [Node(",", ",", "PUNCT", deprel="punct", glued=True)] if comma else []
    second.before[:0] = [*joint, Node(conjunction, conjunction, "CCONJ", deprel="cc")]
    return first.add(second, "conj")


def agreement(subject: Node) -> tuple[str, str]:
    """Number and person that a verb shows after this subject."""
    if any(child.deprel == "conj" for child in subject.after):
        return "Plur", "3"
    return subject.feats.get("Number", "Sing"), subject.feats.get("Person", "3")


def named(lemma: str) -> Noun:
    """The lexicon's noun with this lemma."""
    return BY_LEMMA[lemma]
