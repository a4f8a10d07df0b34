"""One builder for each phenomenon: a good sentence as a tree, the word to replace, and what to replace it with."""

from collections.abc import Callable
from dataclasses import dataclass

from polarlens.english import choose, clauses, morphology, phrases
from polarlens.english.attachments import ATTACHMENTS
from polarlens.english.choose import Referent
from polarlens.english.draw import Draw
from polarlens.english.nouns import CLASSES, COUNTABLE, Noun
from polarlens.english.phrases import agreement
from polarlens.english.predicates import frame_for, negation
from polarlens.english.simple import object_of, reflexive_tense
from polarlens.english.tree import Node
from polarlens.english.verbs import PLURAL_OBJECT, PUNCTUAL, REFLEXIVE, STATIVE, Frame, done_to

OTHER = {"Sing": "Plur", "Plur": "Sing"}
_DETERMINERS = {
    "Sing": ("this", "this", "that", "that", "every", "each", "another", "a"),
    "Plur": ("these", "these", "those", "those", "many", "several", "both", "few", "two", "three"),
}
_NUMBERED = tuple(noun for noun in COUNTABLE if noun.shows_number)
_SUBJECTS = tuple(n for n in _NUMBERED if n.kind in ("person", "kin", "animal")) * 3 + _NUMBERED
_REGULAR = tuple(noun for noun in _SUBJECTS if not noun.irregular)
_IRREGULAR = tuple(noun for noun in _NUMBERED if noun.irregular)
_DONE_TO = tuple(noun for noun in _SUBJECTS if done_to(noun, "transitive"))
_ATTACHABLE = tuple(noun for noun in _SUBJECTS if noun.kind in ATTACHMENTS)
_SEXED = tuple(n for n in _NUMBERED if n.gender) + tuple(n for n in CLASSES["animal"] if n.shows_number)


@dataclass(frozen=True)
class Contrast:
    """A good sentence and the change that makes it bad.

    root: tree of the good sentence. target, other: the node to change and the form that it gets. controller: the
    node whose number decides. cluster: lemma of the word on which the contrast turns.
    """

    root: Node
    target: Node
    other: str
    controller: Node
    cluster: str


def _verb_frame(draw: Draw, about: Referent) -> Frame | None:
    """A frame whose verb shows agreement in the present: not `read`, whose past looks like its plural."""
    frame = frame_for(draw, about)
    return None if frame is None or morphology.past(frame.verb) == frame.verb else frame


def _agreeing(
    draw: Draw, subject: Node, about: Referent, used: set[str], cluster: str = "", said: str = ""
) -> Contrast:
    """Finish the clause with a finite verb that shows the subject's number.

    The cluster is the main verb, after a form of be with an adjective the noun, unless one is given.
    said: a verb not to repeat.
    """
    features = agreement(subject)
    style = draw.weighted(((45, "plain"), (25, "be"), (10, "progressive"), (10, "perfect"), (10, "do")))
    frame = None if style == "be" else _verb_frame(draw, about)
    if frame and (frame.verb == said or (frame.verb in PUNCTUAL and style != "perfect" and draw.chance(0.8))):
        frame = None
    negative = negation(draw, subject, 1 if style == "do" else 0.15)
    if frame is None:
        tense, lemma = draw.choice(("present", "past")), about.noun.lemma
        complement = choose.complement_adjective(draw, about.noun, subject)
        built = clauses.copular(complement, tense, features, negation=negative)
        root = clauses.clause(subject, built)
    else:
        lemma = frame.verb
        if style == "progressive" and frame.verb not in STATIVE:
            tense = draw.choice(("present progressive", "past progressive"))
        else:
            tense = "present perfect" if style == "perfect" else "present"
        if tense == "present" and style != "do":
            negative = ""
        built = clauses.predicate(frame.verb, tense, features, negation=negative)
        root = choose.complements(draw, frame, clauses.clause(subject, built), used)
        choose.adjuncts(draw, frame, root, tense, used, where=0.3, when=0 if frame.verb in PUNCTUAL else 0.06)
    period = "Past" if tense.startswith("past") else "Pres"
    other = morphology.finite(built.finite.lemma, period, OTHER[features[0]])
    return Contrast(root, built.finite, other, subject, cluster or lemma)


def _subject(draw: Draw, noun: Noun, number: str, role: str = "specified") -> Node:
    return choose.phrase(draw, noun, number, role, bare=0.04 if role == "definite" else 0)


def _plain(draw: Draw, number: str, options: tuple[Noun, ...], *, by_noun: bool) -> Contrast:
    noun = draw.choice(options)
    subject = _subject(draw, noun, number, "definite")
    return _agreeing(draw, subject, Referent(noun, number, "it"), {noun.lemma}, noun.lemma if by_noun else "")


def regular(draw: Draw, number: str, _: str) -> Contrast:
    """These teachers listen/listens to the music."""
    return _plain(draw, number, _REGULAR, by_noun=False)


def irregular(draw: Draw, number: str, _: str) -> Contrast:
    """The mice are/is hungry."""
    return _plain(draw, number, _IRREGULAR, by_noun=True)


def across_phrase(draw: Draw, number: str, attractor: str) -> Contrast:
    """The boys near the car are/is tired."""
    noun = draw.choice(_ATTACHABLE)
    used = {noun.lemma}
    subject = _subject(draw, noun, number)
    attached = choose.attachment(draw, noun, attractor, used)
    while attached is None or not attached[1].shows_number:
        attached = choose.attachment(draw, noun, attractor, used)
    subject.add(attached[0], "nmod")
    return _agreeing(draw, subject, Referent(noun, number, "it"), used)


def across_subject_relative(draw: Draw, number: str, attractor: str) -> Contrast:
    """The boys who chased the cat are/is tired. The verb inside is in the past, so that it does not tell the number."""
    while True:
        noun = draw.choice(_SUBJECTS)
        frame = frame_for(draw, Referent(noun, number, "it"), "transitive", "prepositional")
        objects = [n for n in frame.objects if n.shows_number and n is not noun] if frame else []
        if frame and objects and not (frame.verb in PLURAL_OBJECT and attractor == "Sing"):
            break
    inner = draw.choice(objects)
    used = {noun.lemma, inner.lemma}
    subject = _subject(draw, noun, number)
    inner_tense = draw.choice(("past", "past", "past perfect", *(() if frame.verb in STATIVE else ("could",))))
    built = clauses.predicate(frame.verb, inner_tense, (number, "3"))
    relative = clauses.clause(choose.relative(draw, noun, role="nsubj"), built)
    phrase = choose.phrase(draw, inner, attractor, "definite", adjectives=0.1)
    if frame.preposition:
        relative.add(phrases.prepositional(frame.preposition, phrase), "obl")
    else:
        relative.add(phrase, "obj")
    subject.add(relative, "acl:relcl")
    return _agreeing(draw, subject, Referent(noun, number, "it"), used, said=frame.verb)


def across_object_relative(draw: Draw, number: str, attractor: str) -> Contrast:
    """The boys that the teacher helped are/is tired."""
    noun = draw.choice(_DONE_TO)
    frame, agent = object_of(draw, noun)
    while not agent.shows_number:
        frame, agent = object_of(draw, noun)
    subject = _subject(draw, noun, number)
    phrase = choose.phrase(draw, agent, attractor, "definite", adjectives=0.1)
    if phrase.before and phrase.before[0].form == "that":
        phrase.before[0].form = phrase.before[0].lemma = "this"  # "that that judge" is hard to read
    built = clauses.predicate(frame.verb, draw.choice(("past", "past", "present", "past perfect")), phrase)
    front = ((choose.relative(draw, noun, role="obj"), "obj"),)
    subject.add(clauses.clause(phrase, built, front=front), "acl:relcl")
    return _agreeing(draw, subject, Referent(noun, number, "it"), {noun.lemma, agent.lemma}, said=frame.verb)


def determiner_noun(draw: Draw, number: str, _: str) -> Contrast:
    """The girl painted this house/houses; those carpenters/carpenter slept. No verb shows the noun's number."""
    while True:
        noun = draw.choice(_NUMBERED)
        frames = done_to(noun, "transitive")
        if noun.kind != "kin" and (frames or frame_for(draw, Referent(noun, number, "it"))):
            break
    extra = choose.adjective(draw, noun) if draw.chance(0.4) else ()
    phrase = phrases.noun_phrase(noun, number, draw.choice(_DETERMINERS[number]), extra)
    other = noun.plural if number == "Sing" else noun.lemma
    tenses = ("past", "past", "past", "past perfect", "will", "could", "must")
    used = {noun.lemma}
    own = frame_for(draw, Referent(noun, number, "it")) if not frames or draw.chance(0.35) else None
    if own:
        tense = draw.choice(tenses[:4] if own.verb in STATIVE else tenses)
        root = clauses.clause(phrase, clauses.predicate(own.verb, tense, phrase))
        choose.complements(draw, own, root, used)
        choose.adjuncts(draw, own, root, tense, used)
    else:
        frame = draw.choice(frames)
        tense = draw.choice(tenses[:4] if frame.verb in STATIVE else tenses)
        agent = choose.other_than(draw, frame.subjects, used)
        subject = choose.phrase(draw, agent, choose.referent(draw, agent, draw.number()).number, "definite")
        root = clauses.clause(subject, clauses.predicate(frame.verb, tense, subject)).add(phrase, "obj")
        choose.adjuncts(draw, frame, root, tense, used, where=0.3)
    return Contrast(root, phrase, other, phrase.before[0], noun.lemma)


def reflexive(draw: Draw, number: str, _: str) -> Contrast:
    """The queen blamed herself/themselves. Only nouns that tell the sex, and animals: `they` for one is no way out."""
    noun = draw.choice(_SEXED)
    verb = draw.choice(REFLEXIVE["human" if noun.human else "animal"])
    subject = _subject(draw, noun, number, "definite")
    root = clauses.clause(subject, clauses.predicate(verb, reflexive_tense(draw, verb), subject))
    single = choose.referent(draw, noun, "Sing").mention("Reflex")
    several = phrases.pronoun("they", "Reflex")
    target, other = (single, several.form) if number == "Sing" else (several, single.form)
    return Contrast(root.add(target, "obj"), target, other, subject, verb)


PHENOMENA: dict[str, tuple[Callable[[Draw, str, str], Contrast], bool]] = {
    "regular_plural_subject_verb_agreement": (regular, False),
    "irregular_plural_subject_verb_agreement": (irregular, False),
    "agreement_across_prepositional_phrase": (across_phrase, True),
    "agreement_across_subject_relative": (across_subject_relative, True),
    "agreement_across_object_relative": (across_object_relative, True),
    "determiner_noun_agreement": (determiner_noun, False),
    "reflexive_agreement": (reflexive, False),
}
"""Phenomenon: builder, and whether there is an attractor."""
