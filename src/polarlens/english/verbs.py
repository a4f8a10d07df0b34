"""Verbs of the lexicon with their frames: what they are said of, what they take, what may follow.

One line per group: `verbs | subjects | objects | adjunct`. Subjects and objects are descriptions for `nouns.nouns`.
A verb with a preposition is written `listen+to`. Adjuncts: `place` (in the garden), `home` (in the cottage), `path` (to
the village), `beside` (near the river), `wild`, `swim` and `market` (nouns of their own), `none`; with `!` the verb
asks for one.
"""

from collections import defaultdict
from dataclasses import dataclass

from polarlens.english.morphology import listed
from polarlens.english.nouns import Noun, nouns

_INTRANSITIVE = """
work study | people | | place
wait rest relax | people | | place
wait rest | dog cat horse lion tiger camel ox | | wild
sleep | people | | place
sleep | animal -hen -snake -frog -bird | | wild
sing dance laugh | people | | place
sing | parrot | | none
cry smile cough sneeze hesitate complain whisper shout | people | | none
pray | monk nun shepherd woman man widow grandmother | | place
swim | people | | swim
swim | goose frog turtle dog | | swim
walk hurry wander travel run | people | | path
run | horse dog fox rabbit pony goat donkey deer wolf cat | | path
jump | cat frog goat squirrel rabbit monkey kitten | | none
wander | cow goat sheep ox camel donkey elephant horse | | path
live | people | | !home
live | wolf fox rabbit deer mouse frog squirrel turtle | | !wild
stay | people | | !home
arrive | people letter message book newspaper car truck bus taxi ship boat | | none
disappear | thief stranger child fox rabbit cat key ring coin letter diary painting kite ship cloud star | | none
fall | cup plate vase bottle bowl picture painting mirror lamp leaf hat book letter coin | | none
break | cup plate vase bottle mirror lamp toy clock | | none
shine | star lamp candle lantern | | none
grow | plant -leaf puppy kitten child calf lamb | | none
bloom | flower rose bush cactus tulip daisy | | none
stop | car truck bus bicycle wagon carriage taxi clock | | none
burn | candle lamp lantern house barn cottage letter | | none
matter | idea question plan decision lesson mistake secret theory | | none
fail | plan idea theory joke | | none
play | child boy girl | | place
play | puppy kitten monkey cat | | wild
hide | child thief | | place
hide | mouse rabbit cat fox squirrel snake | | wild
fly | eagle owl parrot goose kite | | none
stand | building furniture statue tree -table -bridge -beach -factory -station -palace | | !beside
"""

_TRANSITIVE = """
read | people | document -map | none
finish copy translate | people | book letter story poem report article novel essay thesis | none
write | people | letter story poem report article message novel essay thesis postcard song | none
open | people | opening box bag letter shop library | none
close | people | opening box bag shop library | none
lock | people | door gate box cabinet shop | none
eat | people | food bread rice soup cheese honey | place
eat | mouse rabbit squirrel monkey goat | apple carrot bread pear banana leaf | none
cook prepare | people | potato egg sausage rice soup carrot onion | none
bake | people | cake pie cookie loaf bread | none
taste | people | soup cake pie cheese cherry cookie wine | none
order | people | sandwich soup coffee tea cake sausage pie juice wine | none
drink | people | milk water tea coffee juice wine | none
drink | cow horse goat cat dog kitten puppy lamb calf elephant | water milk | none
wear | people | clothing -sock ring | none
wash | people | clothing cup plate bottle car window apple carrot potato | none
mend | people | clothing bag basket blanket | none
buy sell | people | thing food vehicle furniture flower bread cheese honey \
-diary -message -statue -report -essay -thesis -letter | market
need want | people | thing vehicle furniture food water coffee tea bread \
-diary -message -essay -thesis -report -letter -statue -portrait -poem | none
own | people | vehicle house cottage shop farm bakery hotel piano horse dog cat pony | none
carry | people | object document clothing instrument chair bench -piano | none
find lose | people | object document clothing ring dog cat kitten puppy -mirror -pillow | place
hide | people | key coin ring letter diary map box bag knife toy | place
steal | thief boy girl sailor soldier stranger waiter man woman monkey \
| key coin ring painting bicycle horse car map | none
break | people | cup plate vase bottle window mirror toy lamp violin | none
repair | people | vehicle chair bench table clock violin guitar piano roof bridge umbrella lamp toy gate | none
paint | people | door house chair portrait picture gate wagon boat flower mountain | none
build | people | house bridge tower boat barn school cottage castle church library | none
visit | people | building area people -factory -field -bakery -square -bridge -name | none
enter | people | building garden park forest -bridge | none
cross | people | river bridge square field valley | none
climb | people | hill mountain tree tower | none
climb | cat squirrel monkey | tree | none
pick | people | flower rose apple pear peach cherry tulip daisy | place
draw | people | tree map flower horse cat house bird ship mountain | none
drive | people | car truck bus taxi wagon | none
ride | people | horse donkey camel bicycle pony | none
play | people | instrument | place
hear | people | music rumor story song owl speech joke | none
enjoy | people | music story novel soup speech joke wine coffee | none
see notice | people | people animal vehicle statue castle star | none
watch | people | animal person ship boat cloud star kin | none
watch follow | animal | person animal | none
help thank meet greet call follow | people | people | none
admire | people | people art rose castle palace | none
trust love hate like remember praise blame warn forgive protect ignore annoy respect support | people | people | none
love like | people | cake cherry honey music poem novel horse dog cat kitten puppy | none
forget | people | question lesson people umbrella key | none
invite hug kiss obey | people | people | none
know | people | people city village secret story poem | none
teach | teacher musician singer monk nun | child student boy girl | none
feed | people | animal child -wolf -lion -tiger -snake -eagle -owl | none
catch | people | thief bird rabbit frog snake horse | none
catch | cat owl fox snake eagle | mouse frog | none
chase | dog wolf fox lion tiger | cat rabbit goat hen goose squirrel sheep deer | none
chase | cat kitten | mouse squirrel bird | none
chase | puppy goose | cat child boy girl hen | none
bite | dog snake monkey puppy rabbit parrot | person | none
frighten | animal | child person | none
frighten | lion tiger wolf eagle snake | animal | none
protect | dog goose | child kitten puppy lamb sheep | none
explain | people | thought thesis | none
discuss | people | thought book novel article report painting | none
understand | people | thought poem map | none
accept reject | people | plan idea theory decision hypothesis | none
mention | people | thought people book | none
surprise please annoy worry confuse | thought letter report article message | person kin | none
impress delight | art poem novel palace castle garden | person kin | none
amuse bore | joke story speech novel magazine | person kin | none
disappoint | crisis decision plan mistake report | person kin | none
describe | people | area building art people | none
describe | article book novel poem | city village island forest castle | none
attract | beach castle garden museum market palace island theater \
| visitor traveler artist child student photographer | none
contain | box basket bag jar cabinet | coin letter apple egg book candle cherry key toy | none
surround | tree bush hill field | house castle village cottage palace church | none
cover | leaf cloud flower | field hill garden mountain valley | none
throw | people | ball coin | none
count collect | people | coin map painting picture leaf ring | none
borrow | people | book novel magazine umbrella bicycle map lamp coat violin | none
choose | people | ring hat coat scarf book lamp picture flower dog | none
clean | people | table desk window lamp mirror kitchen church house shop boot shoe | none
defend | soldier lawyer king queen prince | castle city village people | none
examine | doctor dentist nurse | child patient student soldier sailor dancer | none
arrest | policeman soldier | thief stranger man woman | none
hunt | wolf lion tiger fox hunter eagle owl | rabbit deer mouse | none
decorate | people | church house theater cake school tree | none
"""

_PREPOSITIONAL = """
listen+to | people | people music speech story | none
look+at | people | art people map star flower clock | none
wait+for | people | people bus taxi ship letter | place
talk+to | people | people | place
speak+to | people | people | none
write+to | people | people | none
smile+at | people | people | none
laugh+at | people | joke clown mistake | none
think+about | people | thought people | none
dream+about | people | people island city horse | none
care+for | people | people animal -wolf -lion -tiger -snake | none
depend+on | people | people | none
point+at | people | star painting mountain tower statue map | none
belong+to | thing vehicle furniture | person kin | none
belong+to | dog cat horse pony goat cow donkey camel parrot | person kin | none
run+after | dog puppy child boy girl | ball cat hen goose | none
"""

_DITRANSITIVE = """
give show | people | object document clothing flower apple cake cookie -mirror -diary | none
send | people | letter message postcard report book flower newspaper | none
lend | people | book umbrella coat bicycle car pen map blanket violin novel | none
offer | people | coffee tea cake sandwich apple cookie chair coin | none
bring | people | water coffee tea bread soup letter newspaper blanket pillow key flower | none
sell | shopkeeper farmer baker merchant fisherman artist gardener salesman \
| cake bread honey cheese painting basket flower hat apple | none
teach | teacher musician monk nun | lesson song poem | none
tell | people | story joke secret | none
"""

_CLAUSAL = "think know believe say hope hear notice remember claim admit suspect realize forget discover announce"
_INFINITIVE = "want try hope decide need refuse agree learn begin prefer expect manage"
_LINKING = "seem look appear become remain"
_REFLEXIVE = {
    "human": """see hurt blame praise protect trust admire love hate warn help wash describe introduce defend amuse
        teach forgive ignore convince remind hide paint draw enjoy surprise""",
    "animal": "hurt wash protect clean hide frighten warm see amuse",
}
STATIVE = frozenset(
    listed("""know believe want need own love hate like trust understand remember forget respect belong contain seem
    appear matter depend see hear notice hope prefer expect realize suspect admire forgive obey mention impress
    delight become remain stand describe attract disappoint please frighten claim admit blame surround cover lose accept
    reject""")
)
PUNCTUAL = frozenset(listed("arrive disappear fall break stop hesitate fail lose find"))
"""Verbs that are said of one moment: the simple present suits them less."""
PLURAL_OBJECT = frozenset(("count", "collect"))
"""Verbs that ask for several things."""
_MANNER = """
carefully | read write open close wash drive carry cook repair paint copy translate examine count build choose explain
quickly | walk run write finish copy open close eat drink cook repair read
slowly | walk read write drink eat open wander dance fall
quietly | sing talk wait work sleep rest read pray enter close whisper
loudly | sing laugh complain shout cough sneeze
happily | sing dance play smile eat
patiently | wait work listen explain
well | sing dance swim cook
badly | sing dance swim cook
deeply | sleep
brightly | shine burn
suddenly | disappear stop arrive laugh
"""


@dataclass(frozen=True)
class Frame:
    """One way to use a verb.

    verb: base form. pattern: intransitive, transitive, prepositional or ditransitive.
    subjects, objects: nouns that fit. preposition: of the object, or empty. adjunct: see the module.
    """

    verb: str
    pattern: str
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    preposition: str
    adjunct: str


def _frames(pattern: str, table: str) -> list[Frame]:
    frames = []
    for line in table.strip().splitlines():
        verbs, subjects, objects, adjunct = (cell.strip() for cell in line.split("|"))
        for entry in verbs.split():
            verb, _, preposition = entry.partition("+")
            frames.append(Frame(verb, pattern, nouns(subjects), nouns(objects), preposition, adjunct))
    return frames


FRAMES = (
    *_frames("intransitive", _INTRANSITIVE),
    *_frames("transitive", _TRANSITIVE),
    *_frames("prepositional", _PREPOSITIONAL),
    *_frames("ditransitive", _DITRANSITIVE),
)
CLAUSAL = tuple(_CLAUSAL.split())
INFINITIVE = tuple(_INFINITIVE.split())
LINKING = tuple(_LINKING.split())
REFLEXIVE = {kind: tuple(text.split()) for kind, text in _REFLEXIVE.items()}


def _by_noun(attribute: str) -> dict[tuple[str, str], tuple[Frame, ...]]:
    table: dict[tuple[str, str], list[Frame]] = defaultdict(list)
    for frame in FRAMES:
        if attribute == "objects" and frame.verb in PLURAL_OBJECT:
            continue
        for noun in getattr(frame, attribute):
            table[frame.pattern, noun.lemma].append(frame)
    return {key: tuple(frames) for key, frames in table.items()}


_WITH_SUBJECT, _WITH_OBJECT = _by_noun("subjects"), _by_noun("objects")


def said_of(noun: Noun, *patterns: str) -> tuple[Frame, ...]:
    """Frames of the given patterns that the noun can be the subject of."""
    return tuple(frame for pattern in patterns for frame in _WITH_SUBJECT.get((pattern, noun.lemma), ()))


def done_to(noun: Noun, *patterns: str) -> tuple[Frame, ...]:
    """Frames of the given patterns that the noun can be the object of."""
    return tuple(frame for pattern in patterns for frame in _WITH_OBJECT.get((pattern, noun.lemma), ()))


def _manner() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for line in _MANNER.strip().splitlines():
        adverb, verbs = (cell.strip() for cell in line.split("|"))
        for verb in verbs.split():
            table[verb] = (*table.get(verb, ()), adverb)
    return table


MANNER = _manner()
"""Adverbs of manner that go with a verb."""
