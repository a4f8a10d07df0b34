"""Adjectives, adverbs, function words and fixed phrases of the lexicon."""

from polarlens.english.morphology import listed
from polarlens.english.nouns import BY_LEMMA, CLASSES, Noun, nouns

_ATTRIBUTIVE = {
    "person": "young old tall kind clever brave quiet famous rich poor proud honest polite lazy shy friendly cheerful",
    "kin": "",
    "animal": "big small old young brown white black gray wild thin hungry gentle",
    "object": "old new small heavy beautiful cheap expensive strange red blue green broken useful",
    "furniture": "old new wooden heavy beautiful comfortable small",
    "clothing": "old new red blue green black expensive elegant woolen",
    "document": "old new long short interesting strange important boring",
    "art": "old beautiful famous strange expensive unusual",
    "thought": "good bad new strange simple important difficult dangerous",
    "food": "fresh delicious small big cheap",
    "instrument": "old new expensive beautiful",
    "vehicle": "old new fast slow red blue green empty",
    "building": "old new tall small beautiful famous ancient modern",
    "area": "quiet beautiful large small peaceful",
    "plant": "beautiful small old tall green",
    "tune": "old new sad beautiful famous",
    "part": "old new small large clean",
    "landscape": "beautiful distant white strange",
    "opening": "old new heavy wooden small green",
    "dish": "fresh delicious cheap",
    "drink": "cold hot fresh",
    "sound": "beautiful sad strange",
}
_PREDICATIVE = {
    "person": "happy tired angry hungry sad nervous ready late busy sick lonely calm thirsty proud clever kind brave "
    "famous honest lazy polite quiet cheerful strong",
    "animal": "hungry tired thirsty quiet calm fast big small sick gentle wild dangerous beautiful",
    "object": "old new heavy expensive cheap beautiful useful broken dirty small",
    "furniture": "old new heavy expensive wooden comfortable dirty",
    "clothing": "old new expensive cheap dirty elegant wet dry",
    "document": "old long short interesting important boring useful difficult",
    "art": "old beautiful famous strange expensive unusual",
    "thought": "good bad new strange simple important difficult dangerous",
    "food": "fresh sweet delicious cheap expensive",
    "instrument": "old new expensive beautiful heavy",
    "vehicle": "old new fast slow expensive empty dirty",
    "building": "old new tall empty beautiful famous modern crowded",
    "area": "quiet beautiful large small peaceful crowded empty",
    "plant": "beautiful green small old dry",
    "tune": "sad beautiful old famous",
    "part": "old new clean dirty large",
    "landscape": "beautiful distant dangerous",
    "opening": "old heavy broken small wooden",
    "dish": "fresh cold delicious",
    "drink": "cold hot fresh",
    "sound": "beautiful loud sad",
}
_PREDICATIVE["kin"] = _PREDICATIVE["name"] = _PREDICATIVE["person"]
ATTRIBUTIVE = {kind: tuple(text.split()) for kind, text in _ATTRIBUTIVE.items()}
PREDICATIVE = {kind: tuple(text.split()) for kind, text in _PREDICATIVE.items()}
NOT_GRADABLE = frozenset(listed("broken wooden ready empty wild woolen modern ancient late dry wet new"))
"""Adjectives that `very`, `quite` and `too` do not go with well."""
NOT_WITH_SEEM = frozenset(listed("wooden woolen late new ready broken"))
PASSING = frozenset(
    listed("happy tired angry hungry sad nervous ready late busy sick calm thirsty quiet cold wet dirty")
)
"""States that come and go: they go with `today`, `now`, `because`."""
INTENSIFIERS = ("very", "very", "very", "quite", "rather")
EXCESSIVE = frozenset(
    listed("small big old heavy expensive short long cold hot slow quiet late difficult dangerous tired loud")
)
"""Adjectives that one may have too much of."""
FREQUENCY = ("always", "often", "usually", "sometimes", "never", "rarely")

# form: lemma, UPOS, relation, features
DETERMINERS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "the": ("the", "DET", "det", {"Definite": "Def", "PronType": "Art"}),
    "a": ("a", "DET", "det", {"Definite": "Ind", "PronType": "Art"}),
    "this": ("this", "DET", "det", {"Number": "Sing", "PronType": "Dem"}),
    "that": ("that", "DET", "det", {"Number": "Sing", "PronType": "Dem"}),
    "these": ("this", "DET", "det", {"Number": "Plur", "PronType": "Dem"}),
    "those": ("that", "DET", "det", {"Number": "Plur", "PronType": "Dem"}),
    "every": ("every", "DET", "det", {"PronType": "Tot"}),
    "each": ("each", "DET", "det", {"PronType": "Tot"}),
    "another": ("another", "DET", "det", {"PronType": "Ind"}),
    "some": ("some", "DET", "det", {"PronType": "Ind"}),
    "both": ("both", "DET", "det", {"PronType": "Tot"}),
    "many": ("many", "ADJ", "amod", {"Degree": "Pos"}),
    "several": ("several", "ADJ", "amod", {"Degree": "Pos"}),
    "few": ("few", "ADJ", "amod", {"Degree": "Pos"}),
    "two": ("two", "NUM", "nummod", {"NumForm": "Word", "NumType": "Card"}),
    "three": ("three", "NUM", "nummod", {"NumForm": "Word", "NumType": "Card"}),
    "four": ("four", "NUM", "nummod", {"NumForm": "Word", "NumType": "Card"}),
}


def _personal(number: str, person: str, gender: str = "") -> dict[str, str]:
    features = {"Number": number, "Person": person, "PronType": "Prs"}
    return features | ({"Gender": gender} if gender else {})


# nominative: accusative, possessive, reflexive, features
PRONOUNS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "I": ("me", "my", "myself", _personal("Sing", "1")),
    "he": ("him", "his", "himself", _personal("Sing", "3", "Masc")),
    "she": ("her", "her", "herself", _personal("Sing", "3", "Fem")),
    "it": ("it", "its", "itself", _personal("Sing", "3", "Neut")),
    "we": ("us", "our", "ourselves", _personal("Plur", "1")),
    "they": ("them", "their", "themselves", _personal("Plur", "3")),
}
_LOCATIVE = {
    "in": """house church castle tower school library museum hotel shop hospital bakery palace cottage barn theater
        garden park forest village city town valley field kitchen""",
    "at": "market station harbor school",
    "on": "island beach square farm bridge",
}
LOCATIVE: dict[str, tuple[str, ...]] = {}
"""Prepositions of place that go with a noun."""
for _preposition, _text in _LOCATIVE.items():
    for _lemma in _text.split():
        LOCATIVE[_lemma] = (*LOCATIVE.get(_lemma, ()), _preposition)
PLACES = tuple(noun for noun in (*CLASSES["place"], BY_LEMMA["kitchen"]) if noun.lemma in LOCATIVE)
PATHS: dict[str, tuple[Noun, ...]] = {
    "to": nouns("church castle school library museum shop village town market beach station harbor park"),
    "through": nouns("forest park village city garden valley"),
    "along": nouns("river beach"),
    "across": nouns("bridge field square"),
    "around": nouns("lake garden village"),
}
HOMES = nouns("house castle cottage palace hotel village town city valley farm island")
WILD = nouns("forest field valley barn garden")
SWIMMING = nouns("river lake")
BESIDE = ("near", "behind", "beside")
LANDMARKS = nouns(
    "church castle tower school library museum hotel shop hospital cottage barn bridge river lake tree gate garden"
)
TIMES = {
    "Past": ("yesterday", "last week", "last night", "last summer", "last month"),
    "Pres": ("every day", "every morning", "every week", "every summer", "every evening"),
    "Fut": ("tomorrow", "next week", "next summer", "tonight", "next month"),
}
"""Time phrases that go with a tense. Words other than the nouns are given in `TIME_WORDS`."""
TIME_WORDS: dict[str, tuple[str, str, dict[str, str]]] = {
    "last": ("ADJ", "amod", {"Degree": "Pos"}),
    "next": ("ADJ", "amod", {"Degree": "Pos"}),
    "every": ("DET", "det", {"PronType": "Tot"}),
}
MODALS = ("can", "could", "will", "would", "should", "must", "may", "might")
"""Modal verbs."""
CONTRACTED_MODALS = {"will": "wo", "can": "ca"}
"""Modals whose form changes before n't."""
NO_CONTRACTION = frozenset(("am", "may", "might"))
"""Auxiliaries that n't is not joined to."""
