"""Passages: two to four sentences about the same people, animals or things, which pronouns take up again."""

from collections.abc import Callable
from itertools import count

from polarlens.english import choose, clauses, compound, phrases, words
from polarlens.english.choose import Referent
from polarlens.english.clauses import finish
from polarlens.english.draw import Draw
from polarlens.english.morphology import listed
from polarlens.english.nouns import CLASSES, NAMES, Noun, nouns
from polarlens.english.phrases import agreement
from polarlens.english.predicates import act, frame_for
from polarlens.english.simple import PROFESSIONS, object_of
from polarlens.english.tree import Node
from polarlens.english.verbs import done_to

_FOUND = nouns("object clothing document art kitten puppy horse bicycle boat violin guitar flower -key -lantern")
_PETS = nouns("dog cat horse cow goat parrot pony rabbit donkey kitten puppy goose")
_WISHES = nouns("museum castle library theater island beach market garden palace village")
_FAULTS = frozenset(listed("broken dirty old strange heavy short boring small sick tired hungry expensive wet dry"))
_RELATIVES = nouns("kin -wife")
_LINKS = ("then", "later", "soon", "afterwards")


def _hero(draw: Draw, number: str | None = None) -> tuple[Referent, Node]:
    """Someone to tell about, with the phrase that introduces them."""
    noun = draw.choice(draw.weighted(((3, NAMES), (2, CLASSES["kin"]), (5, CLASSES["person"]))))
    who = choose.referent(draw, noun, number or draw.number(0.4))
    if noun.kind != "person":
        return who, choose.phrase(draw, noun, who.number)
    extra = choose.adjective(draw, noun) if draw.chance(0.5) else ()
    several = draw.choice(("two", "three", "some", "the"))
    determiner = several if who.number == "Plur" else draw.choice(("a", "a", "the"))
    return who, phrases.noun_phrase(noun, who.number, determiner, extra)


def _deed(draw: Draw, subject: Node, who: Referent, tense: str, used: set[str], *patterns: str) -> Node:
    """What someone did: an action, not a state."""
    frame = compound.deliberate(draw, who, *patterns)
    while frame.verb in used:
        frame = compound.deliberate(draw, who, *patterns)
    used.add(frame.verb)
    return act(draw, subject, agreement(subject), frame, tense, used, negative=0, adverb=0, where=0.7, when=0)


def _linked(head: Node, text: str) -> Node:
    """The clause with an adverb before it: then she slept."""
    first = phrases.adverb(text)
    first.deprel = "advmod"
    head.before.insert(0, first)
    return head


def _when(draw: Draw, head: Node, tense: str) -> Node:
    """The clause with a time phrase and a comma before it."""
    first = clauses.with_comma(phrases.time_phrase(choose.time_text(draw, tense)))
    first.deprel = "obl:unmarked"
    head.before.insert(0, first)
    return head


def _is(draw: Draw, subject: Node, noun: Noun, tense: str) -> Node:
    complement = choose.complement_adjective(draw, noun, subject)
    return clauses.clause(subject, clauses.copular(complement, tense, subject))


def habits(draw: Draw) -> list[Node]:
    """Anna is a baker. She works in the village. Every evening, she plays the violin."""
    who, name = _hero(draw)
    used = {who.noun.lemma}
    if who.noun.kind in ("name", "kin"):
        job = phrases.noun_phrase(draw.choice(PROFESSIONS), who.number, "" if who.number == "Plur" else "a")
        first = clauses.clause(name, clauses.copular(job, "present", name))
    else:
        first = clauses.clause(name, clauses.predicate("live", "present", name))
        first.add(choose.place(draw, used, words.HOMES), "obl")
    story = [first]
    for turn in range(draw.choice((1, 2, 2))):
        pronoun = who.mention()
        deed = _deed(draw, pronoun, who, "present", used)
        story.append(_when(draw, deed, "present") if turn else deed)
    if draw.chance(0.4):
        story.append(compound.state(draw, who.mention(), who, "present"))
    return story


def find(draw: Draw) -> list[Node]:
    """Last summer, a sailor found a ring in the garden. It was very old. He gave it to his daughter."""
    who, name = _hero(draw)
    thing = draw.choice(_FOUND)
    it = choose.referent(draw, thing, draw.number(0.3))
    article = draw.choice(("two", "some", "three")) if it.number == "Plur" else "a"
    verb = draw.choice(("find", "find", "buy", "see"))
    first = clauses.clause(name, clauses.predicate(verb, "past", name))
    extra = choose.adjective(draw, thing) if draw.chance(0.3) else ()
    first.add(phrases.noun_phrase(thing, it.number, article, extra), "obj")
    where = phrases.named(draw.choice(("market", "shop"))) if verb == "buy" else draw.choice(words.PLACES)
    first.add(phrases.prepositional(words.LOCATIVE[where.lemma][0], choose.definite(draw, where)), "obl")
    story = [_when(draw, first, "past") if draw.chance(0.5) else first]
    subject = it.mention()
    story.append(_is(draw, subject, thing, "past"))
    if draw.chance(0.4):
        link = "but" if story[-1].lemma in _FAULTS else "and"
        story[-1] = phrases.coordinate(story[-1], _opinion(who, it, draw.choice(("love", "like"))), link, comma=True)
    giver = who.mention()
    last = clauses.clause(giver, clauses.predicate(draw.choice(("give", "show")), "past", giver))
    last.add(it.mention("Acc"), "obj")
    relative = draw.choice(_RELATIVES)
    to = phrases.noun_phrase(relative, "Sing", owner=who.mention("Gen"))
    last.add(phrases.prepositional("to", to), "obl")
    story.append(_linked(last, draw.choice(_LINKS)) if draw.chance(0.5) else last)
    if draw.chance(0.3):
        thanks = choose.referent(draw, relative, "Sing").mention()
        story.append(compound.state(draw, thanks, choose.referent(draw, relative, "Sing"), "past"))
    return story


def _opinion(who: Referent, it: Referent, verb: str) -> Node:
    subject = who.mention()
    return clauses.clause(subject, clauses.predicate(verb, "past", subject)).add(it.mention("Acc"), "obj")


def scene(draw: Draw) -> list[Node]:
    """There were two horses in the field. They were hungry. A farmer watched them."""
    kind = draw.choice(("person", "animal"))
    noun = draw.choice(CLASSES[kind])
    who = choose.referent(draw, noun, draw.number())
    used = {noun.lemma}
    article = draw.choice(("two", "three", "some", "several")) if who.number == "Plur" else "a"
    extra = choose.adjective(draw, noun) if draw.chance(0.4) else ()
    be = clauses.existential(phrases.noun_phrase(noun, who.number, article, extra), "past")
    be.add(choose.place(draw, used, words.PLACES if kind == "person" else words.WILD), "obl")
    story = [be]
    if draw.chance(0.6):
        story.append(compound.state(draw, who.mention(), who, "past"))
    else:
        story.append(_deed(draw, who.mention(), who, "past", used, "transitive", "prepositional"))
    watcher, name = _hero(draw, "Sing")
    if watcher.noun.lemma not in used:
        look = clauses.clause(name, clauses.predicate(draw.choice(("watch", "see", "notice")), "past", name))
        story.append(look.add(who.mention("Acc"), "obj"))
    return story


def wish(draw: Draw) -> list[Node]:
    """Clara and her brother wanted to visit the museum. They walked to the station, but the bus was late."""
    name = draw.choice(NAMES)
    first = choose.referent(draw, name, "Sing")
    kin = draw.choice(_RELATIVES)
    second = choose.referent(draw, kin, draw.number(0.25))
    other = phrases.noun_phrase(kin, second.number, owner=first.mention("Gen"))
    pair = phrases.coordinate(phrases.noun_phrase(name), other)
    goal = draw.choice(_WISHES)
    used = {kin.lemma, goal.lemma}
    start = clauses.clause(pair, clauses.predicate(draw.choice(("want", "decide", "hope")), "past", pair))
    visit = clauses.infinitive(draw.choice(("visit", "see"))).add(choose.definite(draw, goal), "obj")
    story = [start.add(visit, "xcomp")]
    they = Referent(phrases.named("teacher"), "Plur", "they")
    if draw.chance(0.5):
        subject = phrases.pronoun("they")
        go = clauses.clause(subject, clauses.predicate(draw.choice(("walk", "travel", "hurry")), "past", subject))
        go.add(phrases.prepositional("to", choose.definite(draw, phrases.named("station"))), "obl")
        vehicle = phrases.noun_phrase(draw.choice(nouns("bus taxi car ship boat")), "Sing", "the")
        trouble = phrases.adjective_phrase(draw.choice(("late", "full", "slow", "expensive")))
        built = clauses.copular(trouble, "past", vehicle)
        story.append(phrases.coordinate(go, clauses.clause(vehicle, built), "but", comma=True))
    else:
        story.append(_deed(draw, phrases.pronoun("they"), they, "past", used))
    one = phrases.noun_phrase(kin, second.number, owner=first.mention("Gen"))
    verbs = [draw.choice(("complain", "laugh", "wait", "cry")), draw.choice(("smile", "sing", "hesitate", "relax"))]
    halves = [one, phrases.noun_phrase(name)]
    ends = [clauses.clause(s, clauses.predicate(v, "past", s)) for s, v in zip(halves, verbs, strict=True)]
    story.append(phrases.coordinate(ends[0], ends[1], draw.choice(("but", "and")), comma=True))
    return story


def pet(draw: Draw) -> list[Node]:
    """The farmer owns a dog. It often chases the hens. He likes it."""
    who, name = _hero(draw, "Sing")
    animal = draw.choice(_PETS)
    it = choose.referent(draw, animal, draw.number(0.35))
    used = {who.noun.lemma, animal.lemma}
    article = draw.choice(("two", "three")) if it.number == "Plur" else "a"
    extra = choose.adjective(draw, animal) if draw.chance(0.5) else ()
    own = clauses.clause(name, clauses.predicate("have", "present", name))
    story = [own.add(phrases.noun_phrase(animal, it.number, article, extra), "obj")]
    subject = it.mention()
    frame = frame_for(draw, it, "intransitive", "transitive") or compound.deliberate(draw, it)
    often = phrases.adverb(draw.choice(("often", "usually", "sometimes")))
    deed = clauses.clause(subject, clauses.predicate(frame.verb, "present", subject), adverb=often)
    choose.adjuncts(draw, frame, choose.complements(draw, frame, deed, used), "present", used, when=0)
    story.append(deed)
    owner = who.mention()
    like = clauses.clause(owner, clauses.predicate(draw.choice(("love", "like", "feed")), "present", owner))
    like.add(it.mention("Acc"), "obj")
    if draw.chance(0.5):
        kind = draw.choice(("gentle", "clever", "beautiful", "small", "calm"))
        subject = it.mention()
        why = clauses.clause(subject, clauses.copular(phrases.adjective_phrase(kind), "present", subject))
        like.add(clauses.subordinate("because", why), "advcl")
    story.append(like)
    return story


def opinions(draw: Draw) -> list[Node]:
    """Peter thinks that the soup is cold. His mother says that it is delicious."""
    name = draw.choice(NAMES)
    who = choose.referent(draw, name, "Sing")
    noun = draw.choice(nouns("food dish document art building vehicle tune instrument"))
    it = choose.referent(draw, noun, draw.number(0.35))
    kin = draw.choice(_RELATIVES)
    tense = draw.choice(("past", "present"))
    story = []
    speakers = (phrases.noun_phrase(name), phrases.noun_phrase(kin, "Sing", owner=who.mention("Gen")))
    said = ""
    for speaker, topic in zip(speakers, (choose.definite(draw, noun, it.number), it.mention()), strict=True):
        head = clauses.clause(speaker, clauses.predicate(draw.choice(("think", "say", "believe")), tense, speaker))
        complement = choose.complement_adjective(draw, noun, topic)
        while complement.form == said:
            complement = choose.complement_adjective(draw, noun, topic)
        said = complement.form
        inner = clauses.clause(topic, clauses.copular(complement, tense, topic))
        story.append(head.add(clauses.subordinate("that", inner), "ccomp"))
    if draw.chance(0.4):
        subject = who.mention()
        reaction = draw.choice(("laugh", "smile", "agree", "hesitate"))
        story.append(clauses.clause(subject, clauses.predicate(reaction, tense, subject)))
    return story


def accident(draw: Draw) -> list[Node]:
    """The cup that the waiter broke was expensive. He didn't see it. Later, he bought another cup."""
    noun = draw.choice(tuple(n for n in CLASSES["thing"] + CLASSES["vehicle"] if done_to(n, "transitive")))
    it = choose.referent(draw, noun, "Sing")
    frame, agent = object_of(draw, noun)
    who = choose.referent(draw, agent, "Sing")
    subject = choose.definite(draw, agent)
    head = clauses.clause(subject, clauses.predicate(frame.verb, "past", subject))
    story = [head.add(phrases.noun_phrase(noun, "Sing", "a"), "obj")]
    story.append(_is(draw, it.mention(), noun, "past"))
    if who.noun.human:
        story.append(_deed(draw, who.mention(), who, "past", {noun.lemma, agent.lemma}))
        if draw.chance(0.5):
            story[-1] = _linked(story[-1], draw.choice(_LINKS))
    return story


def sequence(draw: Draw) -> list[Node]:
    """Yesterday, my uncles visited the castle. Then they walked to the river. They were tired."""
    who, name = _hero(draw)
    used = {who.noun.lemma}
    story = [_when(draw, _deed(draw, name, who, "past", used), "past")]
    for _ in range(draw.choice((1, 1, 2))):
        deed = _deed(draw, who.mention(), who, "past", used)
        story.append(_linked(deed, draw.choice(_LINKS)) if draw.chance(0.5) else deed)
    if draw.chance(0.5):
        story.append(compound.state(draw, who.mention(), who, "past"))
    return story


SCHEMES: tuple[Callable[[Draw], list[Node]], ...] = (habits, find, scene, wish, pet, opinions, accident, sequence)


def passages(seed: int, n: int) -> list[str]:
    """`n` different passages. The first k are the same whatever `n` is; nothing but `seed` decides them."""
    chosen: dict[str, None] = {}
    attempts = count()
    while len(chosen) < n:
        draw = Draw("passage", seed, next(attempts))
        story = draw.choice(SCHEMES)(draw)
        chosen.setdefault(" ".join(finish(root, "passage").text for root in story))
    return list(chosen)
