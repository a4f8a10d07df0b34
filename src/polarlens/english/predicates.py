"""Clauses with chosen words: a subject that is given and a predicate that suits it."""

from polarlens.english import choose, clauses, phrases
from polarlens.english.choose import Referent
from polarlens.english.draw import Draw
from polarlens.english.tree import Node
from polarlens.english.verbs import Frame, said_of
from polarlens.english.words import FREQUENCY, PASSING, PREDICATIVE

ALL_PATTERNS = ("intransitive", "transitive", "prepositional", "ditransitive")


def frame_for(draw: Draw, about: Referent, *patterns: str) -> Frame | None:
    """A frame that the referent can be the subject of, each pattern equally likely; None if there is none."""
    available = [frames for pattern in patterns or ALL_PATTERNS if (frames := said_of(about.noun, pattern))]
    return draw.choice(draw.choice(available)) if available else None


def negation(draw: Draw, subject: Node | None, chance: float = 0.1) -> str:
    """Not, n't or, mostly, nothing; never after `every`, where it would be ambiguous."""
    if subject and any(child.form == "every" for child in subject.before):
        return ""
    return draw.choice(("not", "n't", "n't")) if draw.chance(chance) else ""


def act(
    draw: Draw,
    subject: Node | None,
    agreeing: tuple[str, str],
    frame: Frame,
    tense: str,
    used: set[str],
    *,
    negative: float = 0.1,
    adverb: float = 0.08,
    where: float = 0.45,
    when: float = 0.12,
) -> Node:
    """A clause with the frame's verb, its objects, and adjuncts by chance; no subject: a verb phrase to conjoin."""
    built = clauses.predicate(frame.verb, tense, agreeing, negation=negation(draw, subject, negative))
    habitual = tense in ("present", "past") and not built.negation and frame.verb != "grow"
    frequency = habitual and draw.chance(adverb)
    often = phrases.adverb(draw.choice(FREQUENCY)) if frequency else None
    head = clauses.clause(subject, built, adverb=often)
    choose.complements(draw, frame, head, used)
    return choose.adjuncts(draw, frame, head, tense, used, where=where, when=0 if often else when)


def be(draw: Draw, subject: Node, about: Referent, tense: str, *, negative: float = 0.1, passing: bool = False) -> Node:
    """A clause with an adjective that suits the referent. `passing`: a state that comes and goes."""
    if passing:
        complement = phrases.adjective_phrase(draw.choice(passing_states(about)))
    else:
        complement = choose.complement_adjective(draw, about.noun, subject)
    built = clauses.copular(complement, tense, subject, negation=negation(draw, subject, negative))
    return clauses.clause(subject, built)


def passing_states(about: Referent) -> tuple[str, ...]:
    """Adjectives for states of the referent that come and go."""
    kind = "animal" if about.noun.kind == "animal" else "person"
    return tuple(word for word in PREDICATIVE[kind] if word in PASSING)
