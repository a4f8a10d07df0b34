"""Types of sentence with several clauses or a coordination. Each takes a draw and gives the root of a labelled tree."""

from collections.abc import Callable

from polarlens.english import choose, clauses, phrases
from polarlens.english.choose import Referent
from polarlens.english.draw import Draw
from polarlens.english.morphology import listed
from polarlens.english.nouns import CLASSES, COUNTABLE, Noun
from polarlens.english.phrases import agreement
from polarlens.english.predicates import ALL_PATTERNS, act, be, frame_for, negation, passing_states
from polarlens.english.simple import object_of, topic
from polarlens.english.tree import Node
from polarlens.english.verbs import CLAUSAL, INFINITIVE, STATIVE, Frame, done_to, said_of

_NOT_WANTED = frozenset(listed("sneeze hesitate disappear cough break complain think dream lose"))
_BARE_CLAUSE = frozenset(("think", "know", "believe", "say", "hope"))
_REACTION = listed("smile laugh cry wait hesitate shout disappear relax sing")
_PERCEPTION = frozenset(listed("see hear meet notice find lose read"))
_DONE_TO = tuple(n for n in COUNTABLE if n.kind != "kin" and len({f.verb for f in done_to(n, "transitive")}) > 1)
_ACTING = tuple(n for n in COUNTABLE if n.kind != "kin" and said_of(n, *ALL_PATTERNS))


def background(tense: str) -> str:
    """The plain tense of a clause beside one with this tense."""
    return "past" if tense.startswith("past") or tense in ("could", "would", "might") else "present"


def _subject_relative_clause(draw: Draw, about: Referent, tense: str, used: set[str]) -> Node:
    frame = frame_for(draw, about)
    assert frame is not None
    pronoun = choose.relative(draw, about.noun, role="nsubj")
    return act(draw, pronoun, (about.number, "3"), frame, tense, used, negative=0.05, adverb=0.05, when=0)


def _object_relative_clause(draw: Draw, about: Referent, tense: str, used: set[str]) -> Node:
    frame, agent = object_of(draw, about.noun)
    used.add(agent.lemma)
    subject = choose.definite(draw, agent, choose.referent(draw, agent, draw.number(0.4)).number)
    built = clauses.predicate(frame.verb, tense, subject)
    front = () if draw.chance(0.2) else ((choose.relative(draw, about.noun, role="obj"), "obj"),)
    return clauses.clause(subject, built, front=front)


def _with_relative(
    draw: Draw, options: tuple[Noun, ...], relative: Callable[[Draw, Referent, str, set[str]], Node]
) -> Node:
    """A noun with a relative clause, as the subject or the object of a sentence."""
    noun = draw.choice(options) if draw.chance(0.4) else draw.choice(CLASSES["person"] + CLASSES["animal"])
    about = choose.referent(draw, noun, draw.number())
    used = {noun.lemma}
    tense = draw.choice(("past", "past", "present", "present", "will", "present progressive"))
    inner = draw.choice(("past", "past perfect")) if tense == "past" else draw.choice(("past", "present"))
    phrase = choose.phrase(draw, noun, about.number, "specified", adjectives=0.1)
    if draw.chance(0.6) or not done_to(noun, "transitive"):
        modifier = relative(draw, about, inner, used)
        phrase.add(modifier, "acl:relcl")
        frame = frame_for(draw, about) if draw.chance(0.7) else None
        if frame is None or frame.verb == modifier.lemma or (frame.verb in STATIVE and tense == "present progressive"):
            return be(draw, phrase, about, background(tense))
        return act(draw, phrase, agreement(phrase), frame, tense, used, adverb=0)
    frame, agent = object_of(draw, noun)
    used.add(agent.lemma)
    subject = choose.phrase(draw, agent, choose.referent(draw, agent, draw.number()).number)
    tense = background(tense) if frame.verb in STATIVE else tense
    head = clauses.clause(subject, clauses.predicate(frame.verb, tense, subject)).add(phrase, "obj")
    modifier = relative(draw, about, inner, used)
    while modifier.lemma == frame.verb:
        modifier = relative(draw, about, inner, used)
    phrase.add(modifier, "acl:relcl")
    return head


def subject_relative(draw: Draw) -> Node:
    """The dog that chased the cats is tired."""
    return _with_relative(draw, _ACTING, _subject_relative_clause)


def object_relative(draw: Draw) -> Node:
    """The cat that the dogs chased is tired."""
    return _with_relative(draw, _DONE_TO, _object_relative_clause)


def embedded(draw: Draw, tense: str, used: set[str]) -> Node:
    """A full clause to embed, in a plain tense that goes with that of the main clause."""
    subject, about, more = topic(draw)
    used |= more
    inner = background(tense)
    inner = draw.choice(("past", "past perfect", "could") if inner == "past" else ("present", "past", "will"))
    frame = frame_for(draw, about) if draw.chance(0.65) else None
    if frame is None:
        return be(draw, subject, about, "past" if inner in ("past perfect", "could") else inner)
    return act(draw, subject, agreement(subject), frame, inner, used, where=0.2, when=0)


def complement(draw: Draw) -> Node:
    """Anna thinks that the soup is cold."""
    noun = draw.choice(CLASSES["people"])
    about = choose.referent(draw, noun, draw.number())
    subject = choose.phrase(draw, noun, about.number)
    tense, verb = draw.choice(("past", "present")), draw.choice(CLAUSAL)
    head = clauses.clause(subject, clauses.predicate(verb, tense, subject))
    inner = embedded(draw, tense, {noun.lemma})
    first = next(node for node, _ in inner.in_order())
    if first.form == "that":
        first.form = first.lemma = "this"  # "that that secret" is hard to read
    if verb not in _BARE_CLAUSE or draw.chance(0.6):
        inner = clauses.subordinate("that", inner)
    return head.add(inner, "ccomp")


def infinitive(draw: Draw) -> Node:
    """The boy wants to visit the museum."""
    noun = draw.choice(CLASSES["people"])
    about = choose.referent(draw, noun, draw.number())
    subject = choose.phrase(draw, noun, about.number)
    used = {noun.lemma}
    verb = draw.choice(INFINITIVE)
    tense = draw.choice(("past", "present"))
    head = clauses.clause(subject, clauses.predicate(verb, tense, subject, negation=negation(draw, subject)))
    return head.add(to_do(draw, about, used), "xcomp")


def to_do(draw: Draw, about: Referent, used: set[str]) -> Node:
    """To and a verb phrase with what the referent can do on purpose."""
    frame = frame_for(draw, about)
    while frame is None or frame.verb in STATIVE or frame.verb in _NOT_WANTED:
        frame = frame_for(draw, about)
    head = choose.complements(draw, frame, clauses.infinitive(frame.verb), used)
    return choose.adjuncts(draw, frame, head, "", used, when=0)


def coordinated_clauses(draw: Draw) -> Node:
    """The girl sang, and the boys listened to the music."""
    tense = draw.choice(("past", "past", "past", "present"))
    used: set[str] = set()
    heads = []
    for _ in range(2):
        subject, about, more = topic(draw, pronouns=0.1)
        while more & used:
            subject, about, more = topic(draw, pronouns=0.1)
        used |= more
        frame = frame_for(draw, about)
        if frame is None:
            heads.append(be(draw, subject, about, tense))
        else:
            heads.append(act(draw, subject, agreement(subject), frame, tense, used, adverb=0.05, when=0))
    return phrases.coordinate(heads[0], heads[1], draw.choice(("and", "and", "but")), comma=True)


def coordinated_verbs(draw: Draw) -> Node:
    """The boy opened the door and smiled."""
    noun = draw.choice(CLASSES["people"])
    about = choose.referent(draw, noun, draw.number())
    subject = about.mention() if draw.chance(0.2) else choose.phrase(draw, noun, about.number)
    used = {noun.lemma}
    tense = draw.choice(("past", "past", "past", "present"))
    heads: list[Node] = []
    verbs: set[str] = set()
    for pattern in ("transitive", ""):
        frame = frame_for(draw, about, *([pattern] if pattern else []))
        while frame is None or frame.verb in verbs or frame.verb in STATIVE:
            frame = frame_for(draw, about)
        verbs.add(frame.verb)
        given = None if heads else subject
        heads.append(
            act(
                draw,
                given,
                agreement(subject),
                frame,
                tense,
                used,
                negative=0,
                adverb=0,
                where=0.3 * len(heads),
                when=0,
            )
        )
    return phrases.coordinate(heads[0], heads[1])


def coordinated_subjects(draw: Draw) -> Node:
    """The king and the queen were tired."""
    first, second = draw.choice(CLASSES["people"]), draw.choice(CLASSES["people"])
    while first.lemma == second.lemma:
        second = draw.choice(CLASSES["people"])
    parts = [choose.definite(draw, n, choose.referent(draw, n, draw.number(0.3)).number) for n in (first, second)]
    subject = phrases.coordinate(parts[0], parts[1])
    about = Referent(phrases.named("teacher"), "Plur", "they")
    if draw.chance(0.3):
        return be(draw, subject, about, draw.choice(("past", "present")))
    frame = frame_for(draw, about)
    assert frame is not None
    used = {first.lemma, second.lemma}
    return act(draw, subject, agreement(subject), frame, choose.tense(draw, frame.verb), used, negative=0.05)


def adverbial(draw: Draw) -> Node:
    """The boys went home because they were tired; when the girl saw the dog, she smiled."""
    noun = draw.choice(CLASSES["people"])
    about = choose.referent(draw, noun, draw.number())
    conjunction = draw.choice(("because", "because", "when", "when", "while", "before", "after", "although", "if"))
    front = conjunction in ("although", "if") or draw.chance(0.35)
    name = choose.phrase(draw, noun, about.number)
    pronoun = about.mention()
    used = {noun.lemma}
    main_subject, side_subject = (pronoun, name) if front else (name, pronoun)
    if conjunction == "if":
        side = state(draw, side_subject, about, "present")
        main = _doing(draw, main_subject, about, "will", used)
    elif conjunction in ("because", "although"):
        tense = draw.choice(("past", "past", "past", "present"))
        main = _doing(draw, main_subject, about, tense, used)
        side = state(draw, side_subject, about, tense)
    elif conjunction == "when":
        tense = draw.choice(("past", "past", "past", "present"))
        side = _noticing(draw, side_subject, about, tense, used)
        main = clauses.clause(main_subject, clauses.predicate(draw.choice(_REACTION), tense, main_subject))
    else:
        tense = draw.choice(("past", "past", "past", "present"))
        main = _doing(draw, main_subject, about, tense, used)
        side = _doing(draw, side_subject, about, tense, used)
    side = clauses.subordinate(conjunction, side)
    if not front:
        return main.add(side, "advcl")
    main.before.insert(0, clauses.with_comma(side))
    side.deprel = "advcl"
    return main


def state(draw: Draw, subject: Node, about: Referent, tense: str) -> Node:
    """The subject is tired, hungry, ..."""
    complement = phrases.adjective_phrase(draw.choice(passing_states(about)), "very" if draw.chance(0.2) else "")
    return clauses.clause(subject, clauses.copular(complement, tense, subject))


def _doing(draw: Draw, subject: Node, about: Referent, tense: str, used: set[str]) -> Node:
    frame = deliberate(draw, about)
    return act(draw, subject, agreement(subject), frame, tense, used, negative=0, adverb=0, when=0)


def deliberate(draw: Draw, about: Referent, *patterns: str) -> Frame:
    """A frame for an action that takes a while, not a state."""
    frame = frame_for(draw, about, *patterns)
    while frame is None or frame.verb in STATIVE or frame.verb in ("sneeze", "cough", "hesitate", "live", "own"):
        frame = frame_for(draw, about, *patterns)
    return frame


def _noticing(draw: Draw, subject: Node, about: Referent, tense: str, used: set[str]) -> Node:
    frame = frame_for(draw, about, "transitive")
    while frame is None or frame.verb not in _PERCEPTION:
        frame = frame_for(draw, about, "transitive")
    return act(draw, subject, agreement(subject), frame, tense, used, negative=0, adverb=0, when=0)


def fronted_time(draw: Draw) -> Node:
    """Last week, the mayor visited the school."""
    tense = draw.choice(("past", "past", "present", "will"))
    subject, about, used = topic(draw, pronouns=0.2)
    frame = frame_for(draw, about)
    while frame is None or frame.verb in STATIVE:
        subject, about, used = topic(draw, pronouns=0.2)
        frame = frame_for(draw, about)
    head = act(draw, subject, agreement(subject), frame, tense, used, negative=0, adverb=0, when=0)
    time = clauses.with_comma(phrases.time_phrase(choose.time_text(draw, tense)))
    time.deprel = "obl:unmarked"
    head.before.insert(0, time)
    return head
