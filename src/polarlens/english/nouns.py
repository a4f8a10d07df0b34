"""Nouns and names of the lexicon, in classes that say what can be done with the thing.

Notation: `singular`, `singular/plural` where the plural is irregular, `:m` or `:f` where the noun tells the sex.
"""

from dataclasses import dataclass

from polarlens.english import morphology

_COUNTABLE = {
    "person": """boy:m girl:f man/men:m woman/women:f king:m queen:f prince:m princess:f waiter:m waitress:f actor:m
        actress:f monk:m nun:f gentleman/gentlemen:m policeman/policemen:m fisherman/fishermen:m fireman/firemen:m
        salesman/salesmen:m businesswoman/businesswomen:f hostess:f widow:f bachelor:m child/children thief/thieves
        teacher student doctor nurse farmer baker painter writer singer dancer lawyer judge sailor soldier pilot driver
        engineer scientist gardener shopkeeper neighbor friend guest visitor traveler stranger musician librarian tailor
        butcher carpenter captain artist poet clerk journalist dentist mayor hunter shepherd
        patient merchant photographer clown""",
    "kin": """brother:m sister:f father:m mother:f son:m daughter:f uncle:m aunt:f cousin grandfather:m grandmother:f
        nephew:m niece:f grandchild/grandchildren wife/wives:f""",
    "animal": """dog cat horse cow pig goat rabbit fox wolf/wolves lion tiger elephant monkey mouse/mice goose/geese
        ox/oxen hen bird eagle owl parrot pony kitten puppy calf/calves lamb donkey camel turtle frog snake squirrel
        sheep/sheep deer/deer""",
    "object": """key bottle cup plate candle lamp umbrella clock ring coin vase toy ball doll kite mirror blanket pillow
        knife/knives basket box bag jar lantern spoon pen bowl""",
    "furniture": "table chair bench bed desk cabinet sofa shelf/shelves",
    "clothing": "coat hat scarf/scarves shirt jacket shoe glove sweater skirt sock boot uniform",
    "document": """book letter story poem report newspaper map diary article message novel magazine essay
        postcard thesis/theses""",
    "art": "painting picture portrait statue photograph",
    "thought": """idea plan secret question rumor decision lesson joke speech theory mistake crisis/crises
        hypothesis/hypotheses""",
    "food": """apple cake pie sandwich egg potato tomato carrot cookie pear peach sausage banana onion cherry
        loaf/loaves""",
    "instrument": "piano violin guitar flute drum trumpet",
    "vehicle": "car truck bus bicycle boat ship wagon carriage taxi",
    "building": """house church castle tower school library museum hotel shop hospital bakery station factory palace
        cottage barn theater bridge""",
    "area": "garden park forest village city town market field valley island beach square farm harbor oasis/oases",
    "plant": "tree flower rose bush leaf/leaves cactus/cacti tulip daisy",
    "tune": "song melody",
    "part": "roof kitchen",
    "landscape": "mountain river lake hill cloud star",
    "opening": "door window gate",
}
_MASS = {
    "dish": "bread rice cheese soup honey butter",
    "drink": "water milk tea coffee juice wine",
    "sound": "music",
}
_NAMES = """Anna:f Clara:f Emma:f Grace:f Helen:f Julia:f Laura:f Maria:f Nora:f Rosa:f Sarah:f Susan:f Alice:f Ruth:f
    Arthur:m Daniel:m David:m Edward:m Frank:m George:m Henry:m Jacob:m Martin:m Oliver:m Peter:m Robert:m Samuel:m
    Thomas:m"""


@dataclass(frozen=True)
class Noun:
    """A noun or a name.

    lemma, plural: forms; `plural` is empty for mass nouns and names.
    kind: class of the lexicon (`person`, `food`, ...; `name` for names).
    gender: `m`, `f` or empty where the noun does not tell.
    """

    lemma: str
    plural: str
    kind: str
    gender: str = ""

    @property
    def irregular(self) -> bool:
        """Plural other than the rule would give."""
        return bool(self.plural) and self.plural != morphology.plural(self.lemma)

    @property
    def shows_number(self) -> bool:
        """Singular and plural differ (false for sheep, deer, mass nouns and names)."""
        return self.plural not in ("", self.lemma)

    @property
    def human(self) -> bool:
        """A person, relative or name."""
        return self.kind in ("person", "kin", "name")


def _read(entry: str, kind: str, countable: bool) -> Noun:
    word, _, gender = entry.partition(":")
    lemma, _, irregular = word.partition("/")
    return Noun(lemma, (irregular or morphology.plural(lemma)) if countable else "", kind, gender)


COUNTABLE = tuple(_read(entry, kind, True) for kind, text in _COUNTABLE.items() for entry in text.split())
MASS = tuple(_read(entry, kind, False) for kind, text in _MASS.items() for entry in text.split())
NAMES = tuple(_read(entry, "name", False) for entry in _NAMES.split())
BY_LEMMA = {noun.lemma: noun for noun in COUNTABLE + MASS + NAMES}
CLASSES = {kind: tuple(n for n in COUNTABLE + MASS if n.kind == kind) for kind in (*_COUNTABLE, *_MASS)}
CLASSES["name"] = NAMES
CLASSES["people"] = CLASSES["person"] + CLASSES["kin"] + NAMES
CLASSES["animate"] = CLASSES["people"] + CLASSES["animal"]
CLASSES["thing"] = tuple(
    noun for kind in ("object", "clothing", "document", "art", "instrument") for noun in CLASSES[kind]
)
CLASSES["place"] = CLASSES["building"] + CLASSES["area"]


def nouns(description: str) -> tuple[Noun, ...]:
    """Nouns named by a description: class names, lemmas (never the same word), and `-` before those to leave out."""
    chosen: list[Noun] = []
    for word in description.split():
        name = word.removeprefix("-")
        members = CLASSES[name] if name in CLASSES else (BY_LEMMA[name],)
        if word.startswith("-"):
            chosen = [noun for noun in chosen if noun not in members]
        else:
            chosen += [noun for noun in members if noun not in chosen]
    return tuple(chosen)
