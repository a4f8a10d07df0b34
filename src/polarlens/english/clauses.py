"""Builders of clauses: verb forms, auxiliaries, negation, questions, relative and subordinate clauses (UD)."""

from dataclasses import dataclass, field

from polarlens.english import morphology
from polarlens.english.phrases import agreement
from polarlens.english.tree import Node, Sentence, sentence
from polarlens.english.words import CONTRACTED_MODALS, MODALS, NO_CONTRACTION

_CONTRACTED = {"is": "'s", "are": "'re", "am": "'m", "have": "'ve", "has": "'s", "will": "'ll"}


@dataclass
class Predicate:
    """A verb or copular complement with its auxiliaries, before a subject is attached.

    head: main verb or complement. auxiliaries: in order, the first one finite. negation: not or n't, or None.
    """

    head: Node
    auxiliaries: list[Node] = field(default_factory=list)
    negation: Node | None = None

    @property
    def finite(self) -> Node:
        """The word that agrees with the subject."""
        return self.auxiliaries[0] if self.auxiliaries else self.head


def _finite_features(tense: str, number: str, person: str) -> dict[str, str]:
    return {"Mood": "Ind", "Number": number, "Person": person, "Tense": tense, "VerbForm": "Fin"}


def _non_finite(verb: str, form: str) -> Node:
    if form == "base":
        return Node(verb, verb, "VERB", {"VerbForm": "Inf"})
    if form == "ing":
        return Node(morphology.present_participle(verb), verb, "VERB", {"Tense": "Pres", "VerbForm": "Part"})
    return Node(morphology.past_participle(verb), verb, "VERB", {"Tense": "Past", "VerbForm": "Part"})


def _chain(verb: str, tense: str, subject: tuple[str, str], support: bool) -> list[Node]:
    """Verb forms of a tense in order: modal + base, have + participle, be + -ing, do + base, or one finite form."""
    if tense in MODALS:
        return [Node(tense, tense, "AUX", {"VerbForm": "Fin"}), _non_finite(verb, "base")]
    time, _, aspect = tense.partition(" ")
    helper, form = {"progressive": ("be", "ing"), "perfect": ("have", "participle"), "": ("do", "base")}[aspect]
    if not aspect and not support:
        helper = verb
    time = {"present": "Pres", "past": "Past"}[time]
    first = Node(morphology.finite(helper, time, *subject), helper, "VERB", _finite_features(time, *subject))
    return [first, _non_finite(verb, form)] if aspect or support else [first]


def predicate(
    verb: str, tense: str, subject: Node | tuple[str, str], *, negation: str = "", passive: bool = False
) -> Predicate:
    """A verb in a tense that agrees with a subject.

    tense: a modal, or `present` or `past`, alone or followed by `progressive` or `perfect`.
    subject: the phrase, or (number, person). negation: empty, `not` or `n't` (`not` after am, may and might).
    """
    features = agreement(subject) if isinstance(subject, Node) else subject
    chain = _chain("be" if passive else verb, tense, features, bool(negation) and not passive)
    if passive:
        chain[-1].deprel = "aux:pass"
        chain.append(_non_finite(verb, "participle"))
        chain[-1].feats["Voice"] = "Pass"
    *auxiliaries, head = chain
    return _negated(Predicate(head, _as_auxiliaries(auxiliaries)), negation)


def question(verb: str, tense: str, subject: Node) -> Predicate:
    """A verb with an auxiliary to put before the subject: do, does or did where the tense has none."""
    chain = _chain(verb, tense, agreement(subject), support=True)
    return Predicate(chain[-1], _as_auxiliaries(chain[:-1]))


def copular(complement: Node, tense: str, subject: Node | tuple[str, str], *, negation: str = "") -> Predicate:
    """A complement (adjective, noun or prepositional phrase) with a form of be, which depends on it."""
    features = agreement(subject) if isinstance(subject, Node) else subject
    chain = _chain("be", tense, features, False)
    chain[-1].deprel = "cop"
    return _negated(Predicate(complement, _as_auxiliaries(chain)), negation)


def _as_auxiliaries(nodes: list[Node]) -> list[Node]:
    for node in nodes:
        node.upos = "AUX"
        if node.deprel == "root":
            node.deprel = "aux"
    return nodes


def _negated(built: Predicate, negation: str) -> Predicate:
    if negation:
        if built.finite.form in NO_CONTRACTION:
            negation = "not"
        joined = negation == "n't" or built.finite.form == "can"
        built.negation = Node(negation, "not", "PART", {"Polarity": "Neg"}, "advmod", glued=joined)
        if negation == "n't":
            built.finite.form = CONTRACTED_MODALS.get(built.finite.form, built.finite.form)
    return built


def clause(
    subject: Node | None,
    built: Predicate,
    *,
    adverb: Node | None = None,
    front: tuple[tuple[Node, str], ...] = (),
    inverted: bool = False,
    contracted: bool = False,
    relation: str = "nsubj",
) -> Node:
    """Attach subject, auxiliaries, negation and a mid-position adverb; returns the clause's head.

    front: (node, relation) before everything else: question words, relative pronouns, fronted adverbials.
    inverted: the first auxiliary before the subject. contracted: the first auxiliary joined to the subject (she's).
    """
    first, rest = built.auxiliaries[:1], built.auxiliaries[1:]
    negation = [built.negation] if built.negation else []
    joined, free = (negation, []) if negation and negation[0].glued else ([], negation)
    subjects = [subject] if subject else []
    if subject:
        subject.deprel = relation
    if contracted and first:
        first[0].form, first[0].glued = _CONTRACTED[first[0].form], True
    middle = [adverb] if adverb else []
    if adverb:
        adverb.deprel = "advmod"
    for node, name in front:
        node.deprel = name
    opening = [*first, *joined, *subjects] if inverted else [*subjects, *first, *joined]
    built.head.before[:0] = [*(node for node, _ in front), *opening, *free, *middle, *rest]
    return built.head


def passive_clause(subject: Node, built: Predicate, agent: Node | None = None) -> Node:
    """A passive clause; `agent` gets its preposition `by` here."""
    head = clause(subject, built, relation="nsubj:pass")
    if agent:
        agent.before.insert(0, Node("by", "by", "ADP", deprel="case"))
        head.add(agent, "obl:agent")
    return head


def relative_pronoun(form: str) -> Node:
    """That, who or which as the head of nothing: attach it as `nsubj` or `obj` of the relative clause."""
    return Node(form, form, "PRON", {"PronType": "Rel"})


def question_word(form: str) -> Node:
    """Who, what (pronouns), where, why or when (adverbs)."""
    return Node(form, form, "PRON" if form in ("who", "what") else "ADV", {"PronType": "Int"})


def subordinate(conjunction: str, head: Node) -> Node:
    """A clause with its conjunction: that, because, if, ... are marks; when is an adverb, as in current UD English."""
    if conjunction == "when":
        head.before.insert(0, Node("when", "when", "ADV", {"PronType": "Int"}, "advmod"))
    else:
        head.before.insert(0, Node(conjunction, conjunction, "SCONJ", deprel="mark"))
    return head


def infinitive(verb: str) -> Node:
    """To and a base form, to be attached as xcomp."""
    return _non_finite(verb, "base").add(Node("to", "to", "PART"), "mark", before=True)


def existential(phrase: Node, tense: str) -> Node:
    """There is/are/was/were and a phrase; be is the head and the phrase its subject."""
    (be,) = _chain("be", tense, agreement(phrase), False)
    return be.add(Node("there", "there", "PRON"), "expl", before=True).add(phrase, "nsubj")


def with_comma(node: Node) -> Node:
    """A fronted phrase or clause with the comma that follows it."""
    return node.add(Node(",", ",", "PUNCT", glued=True), "punct")


def finish(root: Node, kind: str, mark: str = ".") -> Sentence:
    """Full stop or question mark, then the sentence."""
    root.deprel = "root"
    return sentence(root.add(Node(mark, mark, "PUNCT", glued=True), "punct"), kind)
