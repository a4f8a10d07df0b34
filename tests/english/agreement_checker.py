"""A parser of its own for simple English sentences, which knows number and nothing of the package.

It works on the written sentence alone, with word lists and morphology written apart. A sentence is accepted if it has
a parse in which every verb agrees with its subject, every determiner with its noun and every reflexive with its
antecedent.
"""

from __future__ import annotations

from collections.abc import Iterator

ONE, MANY = "one", "many"


def listed(text: str) -> list[str]:
    return text.split()


BOTH = frozenset((ONE, MANY))

IRREGULAR_PLURALS = dict(
    item.split(":")
    for item in listed("""
    man:men woman:women gentleman:gentlemen policeman:policemen fisherman:fishermen fireman:firemen
    salesman:salesmen businesswoman:businesswomen child:children grandchild:grandchildren thief:thieves
    wife:wives wolf:wolves mouse:mice goose:geese ox:oxen calf:calves knife:knives shelf:shelves scarf:scarves
    thesis:theses crisis:crises loaf:loaves hypothesis:hypotheses oasis:oases leaf:leaves cactus:cacti
    sheep:sheep deer:deer
""")
)
REGULAR_NOUNS = listed("""
    actor actress apple article artist aunt bachelor bag baker bakery ball banana barn basket beach bed bench
    bicycle bird blanket boat book boot bottle bowl box boy bridge brother bus bush butcher cabinet cake camel
    candle captain car carpenter carriage carrot castle cat chair cherry church city clerk clock cloud clown
    coat coin cookie cottage cousin cow cup daisy dancer daughter decision dentist desk diary doctor dog doll
    donkey door driver drum eagle egg elephant engineer essay factory farm farmer father field flower flute
    forest fox friend frog garden gardener gate girl glove goat grandfather grandmother guest guitar harbor hat
    hen hill horse hospital hostess hotel house hunter idea island jacket jar joke journalist judge key king
    kitchen kite kitten lake lamb lamp lantern lawyer lesson letter librarian library lion magazine map market
    mayor melody merchant message mirror mistake monk monkey mother mountain museum musician neighbor nephew
    newspaper niece novel nun nurse onion owl painter painting palace park parrot patient peach pear pen
    photograph photographer piano picture pie pig pillow pilot plan plate poem poet pony portrait postcard
    potato prince princess puppy queen question rabbit report ring river roof rose rumor sailor sandwich sausage
    school scientist secret shepherd ship shirt shoe shop shopkeeper singer sister skirt snake sock sofa soldier
    son song speech spoon square squirrel star station statue story stranger student sweater table tailor taxi
    teacher theater theory tiger tomato tower town toy traveler tree truck trumpet tulip turtle umbrella uncle
    uniform valley vase village violin visitor wagon waiter waitress widow window writer
""")
MASS = set(listed("bread rice cheese soup honey butter water milk tea coffee juice wine music"))
NAMES = set(
    listed("""
    Anna Clara Emma Grace Helen Julia Laura Maria Nora Rosa Sarah Susan Alice Ruth Arthur Daniel David Edward
    Frank George Henry Jacob Martin Oliver Peter Robert Samuel Thomas
""")
)
ADJECTIVES = set(
    listed("""
    ancient angry beautiful big black blue boring brave broken brown busy calm cheap cheerful clean clever cold
    comfortable crowded dangerous delicious difficult dirty distant dry elegant empty expensive famous fast
    fresh friendly gentle good bad gray green happy heavy high honest hot hungry important interesting kind
    large late lazy lonely long loud modern nervous new old peaceful polite poor proud quiet ready red rich sad
    short shy sick simple slow small strange strong sweet tall thin thirsty tired unusual useful wet white wild
    wooden woolen yellow young
""")
)
DEGREES = {"very", "quite", "rather", "too"}
ADVERBS = set(
    listed("""
    carefully quickly slowly quietly loudly happily patiently well badly deeply brightly suddenly
""")
)
PREPOSITIONS = set(
    listed("""
    near behind beside with from in on at of about to through along across around for after under
""")
)
TIMES = (
    "yesterday",
    "last week",
    "last night",
    "last summer",
    "last month",
    "every day",
    "every morning",
    "every week",
)
TIMES += ("every summer", "every evening", "tomorrow", "next week", "next summer", "next month", "tonight")
DETERMINERS: dict[str, frozenset[str]] = dict.fromkeys(listed("the my his her our their"), BOTH)
DETERMINERS |= {word: frozenset((ONE,)) for word in listed("a an this that every each another")}
DETERMINERS |= {
    word: frozenset((MANY,)) for word in listed("these those many several both few two three four some any")
}
TAKES_MASS = set(listed("the my his her our their this that some any"))
OBJECT_PRONOUNS = set(listed("him her them me us it"))
REFLEXIVES = {"himself": ONE, "herself": ONE, "itself": ONE, "themselves": MANY}
RELATIVES = ("who", "that", "which")
MODALS = set(listed("can could will would should must may might"))

REGULAR_VERBS = listed("""
    accept admire admit amuse annoy arrest arrive attract bake belong blame bloom bore borrow burn call care
    carry chase claim clean climb close collect complain confuse contain convince cook copy cough count cover
    cross cry dance decorate defend delight depend describe disappear disappoint discuss dream enjoy enter
    examine explain fail finish follow frighten greet hate help hesitate hug hunt hurry ignore impress introduce
    invite jump kiss laugh like listen live lock look love matter mend mention need notice obey offer open order
    own paint pick play please point praise pray prepare protect reject relax remember remind repair respect
    rest shout smile sneeze stay stop study support surprise surround talk taste thank translate travel trust
    visit wait walk wander want warm warn wash watch whisper work worry
""")
# base, past, participle
IRREGULAR_VERBS = [
    item.split(":")
    for item in listed("""
    bite:bit:bitten break:broke:broken bring:brought:brought build:built:built buy:bought:bought
    catch:caught:caught choose:chose:chosen draw:drew:drawn drink:drank:drunk drive:drove:driven eat:ate:eaten
    fall:fell:fallen feed:fed:fed find:found:found fly:flew:flown forget:forgot:forgotten
    forgive:forgave:forgiven give:gave:given grow:grew:grown hear:heard:heard hide:hid:hidden hurt:hurt:hurt
    know:knew:known lend:lent:lent lose:lost:lost meet:met:met read:read:read ride:rode:ridden run:ran:run
    see:saw:seen sell:sold:sold send:sent:sent shine:shone:shone show:showed:shown sing:sang:sung
    sleep:slept:slept speak:spoke:spoken stand:stood:stood steal:stole:stolen swim:swam:swum teach:taught:taught
    tell:told:told think:thought:thought throw:threw:thrown understand:understood:understood wear:wore:worn
    write:wrote:written
""")
]
DOUBLED = ("admit", "hug", "stop", "run", "swim", "forget")


def with_s(word: str) -> str:
    if word[-1] == "y" and word[-2] not in "aeou":
        return word[:-1] + "ies"
    if word[-1] in "sxz" or word[-2:] in ("ch", "sh") or word in ("potato", "tomato"):
        return word + "es"
    return word + "s"


def with_ed(verb: str) -> str:
    if verb[-1] == "e":
        return verb + "d"
    if verb[-1] == "y" and verb[-2] not in "aeou":
        return verb[:-1] + "ied"
    return verb + (verb[-1] if verb in DOUBLED else "") + "ed"


def with_ing(verb: str) -> str:
    return (verb[:-1] if verb[-1] == "e" and verb[-2] != "e" else verb + (verb[-1] if verb in DOUBLED else "")) + "ing"


NOUN_NUMBERS: dict[str, set[str]] = {}
for _one, _many in [*IRREGULAR_PLURALS.items(), *((noun, with_s(noun)) for noun in REGULAR_NOUNS)]:
    NOUN_NUMBERS.setdefault(_one, set()).add(ONE)
    NOUN_NUMBERS.setdefault(_many, set()).add(MANY)
BASES = {*REGULAR_VERBS, *(base for base, _, _ in IRREGULAR_VERBS)}
THIRDS = {with_s(base) for base in BASES}
PASTS = {*(with_ed(verb) for verb in REGULAR_VERBS), *(past for _, past, _ in IRREGULAR_VERBS)}
PARTICIPLES = {*(with_ed(verb) for verb in REGULAR_VERBS), *(participle for _, _, participle in IRREGULAR_VERBS)}
INGS = {with_ing(base) for base in BASES}
AUXILIARIES = {
    "be": {"is": ONE, "are": MANY, "was": ONE, "were": MANY},
    "have": {"has": ONE, "have": MANY, "had": None},
    "do": {"does": ONE, "do": MANY, "did": None},
}


def words_of(sentence: str) -> list[str]:
    """Words in lower case but for names; n't and 's set apart."""
    words = sentence.rstrip(".?").split()
    if words[0] not in NAMES and words[0].removesuffix("'s") not in NAMES:
        words[0] = words[0].lower()
    apart: list[str] = []
    for word in words:
        if word.endswith("n't"):
            apart += [word[:-3], "not"]
        elif word.endswith("'s"):
            apart += [word[:-2], "'s"]
        else:
            apart.append(word)
    return apart


class Parse:
    """Backtracking parser; each method yields the positions at which what it looks for can end."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def at(self, i: int) -> str:
        return self.words[i] if i < len(self.words) else ""

    def sentence(self) -> bool:
        return any(
            end == len(self.words) for middle, number in self.noun_phrase(0) for end in self.verb_phrase(middle, number)
        )

    def noun_phrase(self, i: int) -> Iterator[tuple[int, str]]:
        """(end, number) of a noun phrase with modifiers."""
        word = self.at(i)
        if word in NAMES:
            yield i + 1, ONE
            if self.at(i + 1) == "'s":
                yield from self.nominal(i + 2, BOTH, mass=True, vowel=None)
        if word in DETERMINERS:
            vowel = {"a": False, "an": True}.get(word)
            yield from self.nominal(i + 1, DETERMINERS[word], mass=word in TAKES_MASS, vowel=vowel)
        yield from self.nominal(i, frozenset((MANY,)), mass=True, vowel=None)

    def nominal(self, i: int, numbers: frozenset[str], *, mass: bool, vowel: bool | None) -> Iterator[tuple[int, str]]:
        if vowel is not None:
            starts = (self.at(i)[:1] in "aeiou" and not self.at(i).startswith(("uni", "use"))) or self.at(i) == "honest"
            if starts != vowel:
                return
        while self.at(i) in ADJECTIVES:
            i += 1
        if self.at(i) in MASS and mass:
            yield i + 1, ONE
        for number in NOUN_NUMBERS.get(self.at(i), set()) & numbers:
            for end in self.modifiers(i + 1, number):
                yield end, number

    def modifiers(self, i: int, number: str) -> Iterator[int]:
        yield i
        if self.at(i) in PREPOSITIONS:
            for end, _ in self.noun_phrase(i + 1):
                yield end
        if self.at(i) in RELATIVES:
            yield from self.verb_phrase(i + 1, number)
            for middle, inner in self.noun_phrase(i + 1):
                yield from (end for end, _ in self.verb_group(middle, inner))

    def verb_phrase(self, i: int, number: str) -> Iterator[int]:
        for end, copula in self.verb_group(i, number):
            if copula:
                end += self.at(end) in DEGREES
                if self.at(end) in ADJECTIVES:
                    yield end + 1
            else:
                yield from self.rest(end, number, 0)

    def verb_group(self, i: int, number: str) -> Iterator[tuple[int, bool]]:
        """(end, whether be is all there is) of a finite verb that agrees with `number` and its auxiliaries."""
        word = self.at(i)
        after = i + 1 + (self.at(i + 1) == "not")
        if (number == ONE and word in THIRDS) or (number == MANY and word in BASES) or word in PASTS:
            yield i + 1, False
        if word in MODALS and self.at(after) in BASES:
            yield after + 1, False
        for verb, following in (("be", INGS), ("have", PARTICIPLES), ("do", BASES)):
            forms = AUXILIARIES[verb]
            if word in forms and forms[word] in (None, number):
                if verb == "be":
                    yield after, True
                if self.at(after) in following and not (verb == "do" and after == i + 1):
                    yield after + 1, False

    def rest(self, i: int, number: str, objects: int) -> Iterator[int]:
        """Objects, prepositional phrases, adverbs and time phrases after a verb."""
        yield i
        word = self.at(i)
        if REFLEXIVES.get(word) == number:
            yield from self.rest(i + 1, number, objects + 1)
        if word in ADVERBS:
            yield from self.rest(i + 1, number, objects)
        for length in (1, 2):
            if " ".join(self.words[i : i + length]) in TIMES:
                yield from self.rest(i + length, number, objects)
        start = i + 1 if word in PREPOSITIONS else i
        if objects < 2 or start > i:
            ends = {end for end, _ in self.noun_phrase(start)}
            if self.at(start) in OBJECT_PRONOUNS:
                ends.add(start + 1)
            for end in ends:
                yield from self.rest(end, number, objects + (start == i))


def accepts(sentence: str) -> bool:
    """Whether the sentence has a parse in which everything agrees."""
    return Parse(words_of(sentence)).sentence()
