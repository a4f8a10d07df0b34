"""Random noun phrases, complements and adjuncts that make sense together."""

from dataclasses import dataclass

from polarlens.english import clauses, phrases, words
from polarlens.english.attachments import ATTACHMENTS
from polarlens.english.draw import Draw
from polarlens.english.morphology import listed
from polarlens.english.nouns import CLASSES, NAMES, Noun
from polarlens.english.tree import Node
from polarlens.english.verbs import MANNER, PLURAL_OBJECT, PUNCTUAL, STATIVE, Frame

_OWNERS = ("I", "he", "she", "we", "they")
_OWNED = frozenset(("object", "clothing", "document", "instrument", "vehicle", "furniture", "food"))
_NOT_OLD = frozenset(listed("boy girl child puppy kitten calf lamb prince princess"))
_SUBJECTS = (
    (46, CLASSES["person"]),
    (10, CLASSES["kin"]),
    (10, NAMES),
    (16, CLASSES["animal"]),
    (6, CLASSES["thing"]),
    (3, CLASSES["vehicle"]),
    (4, CLASSES["thought"]),
    (3, CLASSES["plant"]),
    (3, CLASSES["place"]),
)
_SINGULAR = {
    "subject": ((60, "the"), (16, "a"), (8, "this"), (9, "that"), (4, "every"), (2, "another")),
    "definite": ((70, "the"), (12, "this"), (14, "that"), (4, "every")),
    "specified": ((74, "the"), (10, "this"), (12, "that"), (4, "every")),
    "object": ((48, "the"), (38, "a"), (6, "this"), (7, "that"), (2, "another")),
}
_PLURAL = (
    (50, "the"), (9, "some"), (8, "these"), (8, "those"), (5, "many"), (5, "several"), (5, "two"), (3, "three"),
    (1, "four"),
)  # fmt: skip
_FIXED = ((70, "the"), (14, "a"), (8, "this"), (8, "that"))


@dataclass(frozen=True)
class Referent:
    """Someone or something that is talked about: noun, number, and the pronoun that stands for it."""

    noun: Noun
    number: str
    nominative: str

    def mention(self, case: str = "Nom") -> Node:
        """A pronoun for the referent."""
        return phrases.pronoun(self.nominative, case)


def referent(draw: Draw, noun: Noun, number: str) -> Referent:
    """The noun with a number (names and mass nouns are singular) and a pronoun that fits."""
    number = number if noun.plural else "Sing"
    if number == "Plur":
        return Referent(noun, number, "they")
    if not noun.human:
        return Referent(noun, number, "it")
    return Referent(noun, number, {"m": "he", "f": "she"}.get(noun.gender) or draw.choice(("he", "she")))


def subject_noun(draw: Draw) -> Noun:
    """A noun to talk about, mostly people and animals."""
    return draw.choice(draw.weighted(_SUBJECTS))


def other_than(draw: Draw, options: tuple[Noun, ...], used: set[str]) -> Noun:
    """One of the nouns whose lemma is not in `used`, which it then joins."""
    free = [noun for noun in options if noun.lemma not in used]
    chosen = draw.choice(free or options)
    used.add(chosen.lemma)
    return chosen


def owner(draw: Draw, number: str) -> Node:
    """A possessive pronoun or a name with 's. Several fathers are `our` or `their` fathers."""
    if number == "Sing" and draw.chance(0.25):
        return phrases.genitive(phrases.noun_phrase(draw.choice(NAMES)))
    return phrases.pronoun(draw.choice(_OWNERS if number == "Sing" else ("we", "they")), "Gen")


def adjective(draw: Draw, noun: Noun) -> tuple[str, ...]:
    """One attributive adjective that goes with the noun, or none if the noun takes none."""
    options = [word for word in words.ATTRIBUTIVE.get(noun.kind, ()) if not (word == "old" and noun.lemma in _NOT_OLD)]
    return (draw.choice(options),) if options else ()


def phrase(
    draw: Draw, noun: Noun, number: str, role: str = "subject", *, adjectives: float = 0.2, bare: float = 0.0
) -> Node:
    """A noun phrase.

    role: subject, object, definite (a subject that `a` would not suit), or specified (by a phrase or clause that
    follows, so that no owner is named).
    adjectives, bare: chances of an adjective and of a plural without determiner.
    """
    if noun.kind == "name":
        return phrases.noun_phrase(noun)
    if noun.lemma == "wife":
        return phrases.noun_phrase(noun, number, owner=phrases.pronoun("they" if number == "Plur" else "he", "Gen"))
    if noun.kind == "kin":
        return phrases.noun_phrase(noun, number, owner=owner(draw, number))
    extra = adjective(draw, noun) if draw.chance(adjectives) else ()
    if not noun.plural:
        return phrases.noun_phrase(noun, "Sing", draw.weighted(((5, "the"), (2, "some"), (3, ""))), extra)
    if noun.kind in _OWNED and role != "specified" and draw.chance(0.12):
        return phrases.noun_phrase(noun, number, "", extra, phrases.pronoun(draw.choice(_OWNERS), "Gen"))
    if number == "Plur":
        determiner = "" if draw.chance(bare) else draw.weighted(_PLURAL)
    else:
        determiner = draw.weighted(_FIXED if noun.kind in ("building", "area", "landscape") else _SINGULAR[role])
    return phrases.noun_phrase(noun, number, determiner, extra)


def definite(draw: Draw, noun: Noun, number: str = "Sing", *, adjectives: float = 0.0) -> Node:
    """A phrase with `the` (names and relatives as usual)."""
    if noun.kind in ("name", "kin"):
        return phrase(draw, noun, number)
    extra = adjective(draw, noun) if draw.chance(adjectives) else ()
    return phrases.noun_phrase(noun, number, "the", extra)


def attachment(draw: Draw, noun: Noun, number: str, used: set[str]) -> tuple[Node, Noun] | None:
    """A prepositional phrase that can specify the noun, with the noun in it; None if the lexicon has none."""
    if noun.kind not in ATTACHMENTS:
        return None
    preposition, options = draw.choice(ATTACHMENTS[noun.kind])
    inner = other_than(draw, options, used)
    return phrases.prepositional(preposition, definite(draw, inner, number, adjectives=0.1)), inner


def _object(draw: Draw, options: tuple[Noun, ...], head: Node, used: set[str], *, plural: float = 0.4) -> Node:
    noun = other_than(draw, options, used)
    if noun.human and draw.chance(0.08):
        speaking = any(child.feats.get("Person") == "1" for child in head.before if child.deprel == "nsubj")
        return phrases.pronoun(draw.choice(("he", "she", "they", *(() if speaking else ("I", "we")))), "Acc")
    chosen = phrase(draw, noun, draw.number(plural), "object", bare=0.15)
    return _without_some(chosen) if any(child.lemma == "not" for child in head.before) else chosen


def _without_some(negated: Node) -> Node:
    """The object of a negated verb: any books, not some books."""
    for child in negated.before:
        if child.form == "some":
            child.form = child.lemma = "any"
    return negated


def complements(draw: Draw, frame: Frame, head: Node, used: set[str]) -> Node:
    """Attach the objects that the frame asks for; `used` are lemmas not to repeat."""
    if frame.pattern == "transitive":
        head.add(_object(draw, frame.objects, head, used, plural=1 if frame.verb in PLURAL_OBJECT else 0.4), "obj")
    elif frame.pattern == "prepositional":
        head.add(phrases.prepositional(frame.preposition, _object(draw, frame.objects, head, used)), "obl")
    elif frame.pattern == "ditransitive":
        theme = phrase(draw, other_than(draw, frame.objects, used), draw.number(0.3), "object", bare=0.2)
        recipients = CLASSES["people"] + (CLASSES["person"] if frame.verb != "teach" else ())
        recipient = _object(draw, recipients, head, used)
        if draw.chance(0.5):
            head.add(recipient, "iobj").add(theme, "obj")
        else:
            head.add(theme, "obj").add(phrases.prepositional("to", recipient), "obl")
    return head


def place(draw: Draw, used: set[str], options: tuple[Noun, ...]) -> Node:
    """In, at or on a place."""
    noun = other_than(draw, options, used)
    return phrases.prepositional(draw.choice(words.LOCATIVE[noun.lemma]), definite(draw, noun, adjectives=0.12))


def _adjunct(draw: Draw, kind: str, used: set[str]) -> Node:
    if kind in ("place", "home"):
        return place(draw, used, words.PLACES if kind == "place" else words.HOMES)
    if kind == "path":
        preposition = draw.choice(("to", "to", *words.PATHS))
        return phrases.prepositional(preposition, definite(draw, other_than(draw, words.PATHS[preposition], used)))
    if kind == "beside":
        noun = other_than(draw, words.LANDMARKS, used)
        return phrases.prepositional(draw.choice(words.BESIDE), definite(draw, noun))
    options = {"wild": words.WILD, "swim": words.SWIMMING, "market": (phrases.named("market"),)}[kind]
    noun = other_than(draw, options, used)
    return phrases.prepositional("at" if kind == "market" else "in", definite(draw, noun))


def adjuncts(
    draw: Draw, frame: Frame, head: Node, tense: str, used: set[str], *, where: float = 0.45, when: float = 0.12
) -> Node:
    """Attach adverb of manner, place and time, where the frame and the tense allow them and chance has it."""
    if frame.verb in MANNER and draw.chance(0.18):
        manner = draw.choice(MANNER[frame.verb])
        if manner != "suddenly" or tense == "past":
            head.add(phrases.adverb(manner), "advmod")
    kind = frame.adjunct.removeprefix("!")
    if frame.adjunct.startswith("!") or (kind != "none" and draw.chance(where)):
        head.add(_adjunct(draw, kind, used), "obl")
    if frame.verb not in STATIVE and draw.chance(when):
        with_time(draw, head, tense)
    return head


def with_time(draw: Draw, head: Node, tense: str) -> Node:
    """Attach a time phrase that goes with the tense, if there is one."""
    text = time_text(draw, tense)
    return head.add(phrases.time_phrase(text), "obl:unmarked") if text else head


def time_text(draw: Draw, tense: str) -> str:
    """A time phrase that goes with the tense, or nothing."""
    if tense == "past progressive":
        return "yesterday"
    period = {"present": "Pres", "past": "Past", "will": "Fut"}.get(tense)
    return draw.choice(words.TIMES[period]) if period else ""


def tense(draw: Draw, verb: str = "be") -> str:
    """A tense for a main clause; stative verbs get no progressive."""
    chosen = draw.weighted(
        (
            (34, "present"),
            (34, "past"),
            (8, "present progressive"),
            (6, "past progressive"),
            (6, "present perfect"),
            (2, "past perfect"),
            (4, "will"),
            (6, "modal"),
        )
    )
    if chosen == "modal":
        return draw.choice(("can", "could", "should", "must", "might", "may"))
    if verb == "be" or verb in STATIVE:
        plain = chosen if chosen in ("present", "past", "present perfect") else chosen.partition(" ")[0]
        return plain if plain in ("present", "past", "present perfect") else draw.choice(("present", "past"))
    if verb in PUNCTUAL and chosen.startswith("present") and draw.chance(0.6):
        return "past"
    return chosen


def complement_adjective(draw: Draw, noun: Noun, subject: Node, *, linking: bool = False) -> Node:
    """A predicative adjective that suits the noun and is not in the subject; by chance with an adverb of degree."""
    said = {node.form for node in subject.before} | (words.NOT_WITH_SEEM if linking else frozenset())
    options = tuple(word for word in words.PREDICATIVE[noun.kind] if word not in said)
    chosen = draw.choice(options)
    degrees = words.INTENSIFIERS + (("too",) if chosen in words.EXCESSIVE else ())
    degree = draw.choice(degrees) if chosen not in words.NOT_GRADABLE and draw.chance(0.3) else ""
    return phrases.adjective_phrase(chosen, degree)


def relative(draw: Draw, noun: Noun, *, role: str) -> Node:
    """A relative pronoun that fits the noun; `role` is nsubj or obj."""
    options = ("who", "who", "that") if role == "nsubj" else ("that", "that", "who")
    return clauses.relative_pronoun(draw.choice(options if noun.human else ("that", "that", "which")))
