"""Types of simple sentence. Each takes a draw and gives the root of a labelled tree."""

from polarlens.english import choose, clauses, phrases, words
from polarlens.english.attachments import ATTACHMENTS
from polarlens.english.choose import Referent
from polarlens.english.draw import Draw
from polarlens.english.nouns import BY_LEMMA, CLASSES, COUNTABLE, NAMES, Noun, nouns
from polarlens.english.phrases import agreement
from polarlens.english.predicates import act, be, frame_for, negation, passing_states
from polarlens.english.tree import Node
from polarlens.english.verbs import FRAMES, LINKING, PLURAL_OBJECT, REFLEXIVE, STATIVE, Frame, done_to

PROFESSIONS = nouns(
    """teacher doctor nurse farmer baker painter writer singer dancer lawyer judge sailor soldier pilot driver engineer
    scientist gardener shopkeeper musician librarian tailor butcher carpenter dentist journalist photographer"""
)
_PASSIVE = tuple(
    f for f in FRAMES if f.pattern == "transitive" and f.verb not in STATIVE | PLURAL_OBJECT | {"wear", "bore"}
)
_DECLARED = ("object", "clothing", "document", "food", "animal", "person")
_SURFACES = (
    ("on", nouns("table chair bench desk shelf")),
    ("in", nouns("box basket bag kitchen")),
    ("under", nouns("table bed bench")),
)


def speaker(draw: Draw) -> tuple[Node, Referent]:
    """A pronoun subject: we, they, he, she or I."""
    nominative = draw.choice(("he", "she", "they", "we", "I"))
    number = "Plur" if nominative in ("they", "we") else "Sing"
    return phrases.pronoun(nominative), Referent(BY_LEMMA["teacher"], number, nominative)


def topic(
    draw: Draw, pattern: str = "", *, pronouns: float = 0.12, role: str = "subject"
) -> tuple[Node, Referent, set[str]]:
    """A subject phrase, its referent, and the lemmas used so far. `pattern`: what it must be able to do."""
    if draw.chance(pronouns):
        node, about = speaker(draw)
        return node, about, set()
    noun = choose.subject_noun(draw)
    while pattern and frame_for(draw, Referent(noun, "Sing", "it"), pattern) is None:
        noun = choose.subject_noun(draw)
    about = choose.referent(draw, noun, draw.number(0.55))
    return choose.phrase(draw, noun, about.number, role, bare=0.08), about, {noun.lemma}


def _acting(draw: Draw, pattern: str) -> Node:
    subject, about, used = topic(draw, pattern)
    frame = frame_for(draw, about, pattern)
    assert frame is not None
    if draw.chance(0.12) and subject.upos == "NOUN" and all(child.deprel != "nmod:poss" for child in subject.before):
        specify(draw, subject, about.noun, used)
    return act(draw, subject, agreement(subject), frame, choose.tense(draw, frame.verb), used)


def specify(draw: Draw, head: Node, noun: Noun, used: set[str]) -> None:
    """Add a prepositional phrase to a noun, if the lexicon has one for it."""
    attached = choose.attachment(draw, noun, draw.number(), used)
    if attached:
        head.add(attached[0], "nmod")


def intransitive(draw: Draw) -> Node:
    """The boys slept in the garden."""
    return _acting(draw, "intransitive")


def transitive(draw: Draw) -> Node:
    """The teacher has read the letter."""
    return _acting(draw, "transitive")


def prepositional(draw: Draw) -> Node:
    """The nurse listens to the music."""
    return _acting(draw, "prepositional")


def ditransitive(draw: Draw) -> Node:
    """The girl gave her brother an apple; the girl gave an apple to her brother."""
    return _acting(draw, "ditransitive")


def modified(draw: Draw) -> Node:
    """A noun specified by a prepositional phrase: the letters from the doctor are long."""
    noun = choose.subject_noun(draw)
    while noun.kind not in ATTACHMENTS:
        noun = choose.subject_noun(draw)
    about = choose.referent(draw, noun, draw.number(0.55))
    subject, used = choose.phrase(draw, noun, about.number, "specified"), {noun.lemma}
    specify(draw, subject, noun, used)
    frame = frame_for(draw, about) if draw.chance(0.6) else None
    if frame is None:
        return be(draw, subject, about, choose.tense(draw))
    return act(draw, subject, agreement(subject), frame, choose.tense(draw, frame.verb), used)


def copular(draw: Draw) -> Node:
    """The soup was very cold."""
    noun = draw.choice(COUNTABLE) if draw.chance(0.5) else choose.subject_noun(draw)
    about = choose.referent(draw, noun, draw.number(0.55))
    if draw.chance(0.15):
        subject, about = speaker(draw)
        state = phrases.adjective_phrase(draw.choice(passing_states(about)))
        built = clauses.copular(state, draw.choice(("present", "will")), subject)
        return clauses.clause(subject, built, contracted=True)
    return be(draw, choose.phrase(draw, noun, about.number, "definite"), about, choose.tense(draw))


def nominal(draw: Draw) -> Node:
    """Anna is a teacher; her brothers were sailors."""
    noun = draw.choice(NAMES + CLASSES["kin"])
    about = choose.referent(draw, noun, draw.number())
    subject = choose.phrase(draw, noun, about.number)
    what = draw.choice(PROFESSIONS)
    extra = choose.adjective(draw, what) if draw.chance(0.3) else ()
    complement = phrases.noun_phrase(what, about.number, "" if about.number == "Plur" else "a", extra)
    built = clauses.copular(complement, draw.choice(("present", "past")), subject, negation=negation(draw, subject))
    return clauses.clause(subject, built)


def located(draw: Draw) -> Node:
    """The keys are on the table."""
    noun = draw.choice(tuple(n for n in COUNTABLE if n.kind in _DECLARED))
    about = choose.referent(draw, noun, draw.number())
    subject = choose.definite(draw, noun, about.number)
    where = _location(draw, noun, {noun.lemma})
    built = clauses.copular(where, draw.choice(("present", "past")), subject, negation=negation(draw, subject))
    return clauses.clause(subject, built)


def _location(draw: Draw, noun: Noun, used: set[str]) -> Node:
    if noun.kind in ("person", "animal"):
        options = words.WILD if noun.kind == "animal" else words.PLACES
        chosen = choose.other_than(draw, options, used)
        return phrases.prepositional(draw.choice(words.LOCATIVE[chosen.lemma]), choose.definite(draw, chosen))
    preposition, options = draw.choice(_SURFACES)
    return phrases.prepositional(preposition, choose.definite(draw, choose.other_than(draw, options, used)))


def linking(draw: Draw) -> Node:
    """The children seem tired."""
    subject, about, _ = topic(draw, role="definite")
    verb = draw.choice(LINKING if about.noun.human or about.noun.kind == "animal" else LINKING[:3])
    if verb in ("become", "remain"):
        states = [state for state in passing_states(about) if state not in words.NOT_WITH_SEEM]
        complement = phrases.adjective_phrase(draw.choice(states))
    else:
        complement = choose.complement_adjective(draw, about.noun, subject, linking=True)
    built = clauses.predicate(verb, draw.choice(("present", "past")), subject, negation=negation(draw, subject))
    return clauses.clause(subject, built).add(complement, "xcomp")


def passive(draw: Draw) -> Node:
    """The door was opened by the nurse."""
    frame = draw.choice(_PASSIVE)
    noun = draw.choice(frame.objects)
    about = choose.referent(draw, noun, draw.number())
    subject = choose.phrase(draw, noun, about.number)
    tense = draw.choice(("past", "past", "past", "present perfect", "will", "must", "should"))
    agent = None
    if draw.chance(0.5):
        agent = choose.phrase(draw, choose.other_than(draw, frame.subjects, {noun.lemma}), draw.number(0.35))
    built = clauses.predicate(frame.verb, tense, subject, negation=negation(draw, subject), passive=True)
    head = clauses.passive_clause(subject, built, agent)
    return choose.with_time(draw, head, tense) if draw.chance(0.2) else head


def existential(draw: Draw) -> Node:
    """There were two horses in the field."""
    noun = draw.choice(tuple(n for n in COUNTABLE if n.kind in _DECLARED))
    number = draw.number()
    determiner = draw.choice(("some", "many", "several", "two", "three", "four")) if number == "Plur" else "a"
    extra = choose.adjective(draw, noun) if draw.chance(0.3) else ()
    phrase = phrases.noun_phrase(noun, number, determiner, extra)
    head = clauses.existential(phrase, draw.choice(("present", "past")))
    return head.add(_location(draw, noun, {noun.lemma}), "obl")


def reflexive(draw: Draw) -> Node:
    """The queen blamed herself."""
    noun = choose.subject_noun(draw)
    while not (noun.human or noun.kind == "animal"):
        noun = choose.subject_noun(draw)
    about = choose.referent(draw, noun, draw.number())
    subject = choose.phrase(draw, noun, about.number)
    verb = draw.choice(REFLEXIVE["human" if noun.human else "animal"])
    tense = reflexive_tense(draw, verb)
    head = clauses.clause(subject, clauses.predicate(verb, tense, subject, negation=negation(draw, subject)))
    return head.add(about.mention("Reflex"), "obj")


def reflexive_tense(draw: Draw, verb: str) -> str:
    """A tense for a verb with a reflexive: no one can hate or should hurt themselves."""
    if verb == "hurt":
        return draw.choice(("past", "past", "present perfect", "might"))
    return draw.choice(("past", "past", "present", *(() if verb in STATIVE else ("can", "should", "present perfect"))))


def yes_no(draw: Draw) -> Node:
    """Did the boys open the window?"""
    subject, about, used = topic(draw, pronouns=0.2, role="definite")
    frame = frame_for(draw, about) if draw.chance(0.7) else None
    if frame is None:
        built = clauses.copular(
            choose.complement_adjective(draw, about.noun, subject), draw.choice(("present", "past")), subject
        )
        return clauses.clause(subject, built, inverted=True)
    tense = choose.tense(draw, frame.verb)
    head = clauses.clause(subject, clauses.question(frame.verb, tense, subject), inverted=True)
    return choose.adjuncts(draw, frame, choose.complements(draw, frame, head, used), tense, used, when=0)


def wh_question(draw: Draw) -> Node:
    """What did the girl buy? Where do the farmers work? Who opened the door?"""
    word = draw.choice(("what", "what", "who", "where", "why", "when"))
    if word == "who":
        return _who(draw)
    if word == "what":
        return _what(draw)
    subject, about, used = topic(draw, "intransitive" if word == "where" else "", pronouns=0.2, role="definite")
    frame = frame_for(draw, about, "intransitive") if word == "where" else frame_for(draw, about)
    tense = draw.choice(("past", "present")) if word != "when" else "past"
    if frame is None or frame.verb in STATIVE or (word == "where" and frame.adjunct == "none"):
        while not (about.noun.human or about.noun.kind == "animal"):
            subject, about, used = topic(draw, pronouns=0.2, role="definite")
        built = clauses.copular(phrases.adjective_phrase(draw.choice(passing_states(about))), tense, subject)
        return clauses.clause(subject, built, front=((clauses.question_word("why"), "advmod"),), inverted=True)
    front = ((clauses.question_word(word), "advmod"),)
    head = clauses.clause(subject, clauses.question(frame.verb, tense, subject), front=front, inverted=True)
    return choose.complements(draw, frame, head, used)


def _who(draw: Draw) -> Node:
    frame = draw.choice(tuple(f for f in FRAMES if f.pattern == "transitive" and NAMES[0] in f.subjects))
    tense = choose.tense(draw, frame.verb)
    built = clauses.predicate(frame.verb, tense, ("Sing", "3"))
    head = clauses.clause(clauses.question_word("who"), built)
    return choose.complements(draw, frame, head, set())


def _what(draw: Draw) -> Node:
    subject, about, _ = topic(draw, "transitive", pronouns=0.2, role="definite")
    frame = frame_for(draw, about, "transitive")
    assert frame is not None
    word = "who" if all(noun.human for noun in frame.objects) else "what"
    tense = draw.choice(("past", "past", "present", "will", "present perfect"))
    front = ((clauses.question_word(word), "obj"),)
    return clauses.clause(subject, clauses.question(frame.verb, tense, subject), front=front, inverted=True)


def object_of(draw: Draw, noun: Noun) -> tuple[Frame, Noun]:
    """A transitive frame in which the noun is the object, and a noun for the subject."""
    frame = draw.choice(done_to(noun, "transitive"))
    return frame, choose.other_than(draw, frame.subjects, {noun.lemma})
