"""English inflection and the spelling of the indefinite article, for the words of this package's lexicon."""

from functools import cache


def listed(text: str) -> tuple[str, ...]:
    """The words of a list that is written with spaces."""
    return tuple(text.split())


SIBILANTS = ("s", "x", "z", "ch", "sh")
VOWELS = "aeiou"

# base, past, participle
_IRREGULAR_VERBS = """
be was been; become became become; begin began begun; bite bit bitten; break broke broken; bring brought brought;
build built built; buy bought bought; catch caught caught; choose chose chosen; do did done; draw drew drawn; drink
drank drunk; drive drove driven; eat ate eaten; fall fell fallen; feed fed fed; find found found; fly flew flown;
forget forgot forgotten; forgive forgave forgiven; give gave given; grow grew grown; have had had; hear heard heard;
hide hid hidden; hold held held; hurt hurt hurt; know knew known; lend lent lent; lose lost lost; meet met met; read
read read; ride rode ridden; run ran run; say said said; see saw seen; sell sold sold; send sent sent; shine shone
shone; show showed shown; sing sang sung; sleep slept slept; speak spoke spoken; stand stood stood; steal stole
stolen; swim swam swum; teach taught taught; tell told told; think thought thought; throw threw thrown; understand
understood understood; wear wore worn; write wrote written
"""
_DOUBLING = frozenset(listed("stop hug run swim begin forget admit prefer"))


def _table() -> dict[str, tuple[str, str]]:
    rows = (row.split() for row in _IRREGULAR_VERBS.split(";"))
    return {base: (past, participle) for base, past, participle in rows}


IRREGULAR_VERBS = _table()


def _ends_consonant_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in VOWELS


def _add_s(word: str) -> str:
    if _ends_consonant_y(word):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(SIBILANTS) else "s")


@cache
def plural(noun: str) -> str:
    """Regular plural of a noun. Nouns in -o add -es unless they are from Italian or are clippings."""
    if noun in ("potato", "tomato", "hero"):
        return noun + "es"
    return _add_s(noun)


@cache
def third_person(verb: str) -> str:
    """Third person singular present."""
    if verb in ("go", "do"):
        return verb + "es"
    return {"be": "is", "have": "has"}.get(verb) or _add_s(verb)


def _regular_past(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    if _ends_consonant_y(verb):
        return verb[:-1] + "ied"
    return verb + (verb[-1] if verb in _DOUBLING else "") + "ed"


@cache
def past(verb: str) -> str:
    """Past tense (for `be`: the singular)."""
    return IRREGULAR_VERBS[verb][0] if verb in IRREGULAR_VERBS else _regular_past(verb)


@cache
def past_participle(verb: str) -> str:
    """Participle of the perfect and the passive."""
    return IRREGULAR_VERBS[verb][1] if verb in IRREGULAR_VERBS else _regular_past(verb)


@cache
def present_participle(verb: str) -> str:
    """The -ing form."""
    if verb.endswith("e") and not verb.endswith(("ee", "ye")) and verb != "be":
        return verb[:-1] + "ing"
    return verb + (verb[-1] if verb in _DOUBLING else "") + "ing"


def finite(verb: str, tense: str, number: str, person: str = "3") -> str:
    """Finite form that agrees with a subject. `tense`: Pres or Past; `number`: Sing or Plur; `person`: 1, 2 or 3."""
    singular = number == "Sing" and person != "2"
    if verb == "be":
        if tense == "Past":
            return "was" if singular else "were"
        return ("am" if person == "1" else "is") if singular else "are"
    if tense == "Past":
        return past(verb)
    return third_person(verb) if singular and person == "3" else verb


def article(following: str) -> str:
    """`a` or `an` by the sound that the next word begins with."""
    word = following.lower()
    if word.startswith(("honest", "hour", "heir")):
        return "an"
    if word.startswith(("uni", "use", "euro", "one")):
        return "a"
    return "an" if word[0] in VOWELS else "a"
