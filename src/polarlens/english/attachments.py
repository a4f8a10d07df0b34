"""What a noun can be specified by: for each class, prepositions with the nouns that go with them."""

from polarlens.english.nouns import Noun, nouns

_ATTACHMENTS = {
    "person": """near: church castle tower school museum hotel shop bridge river lake tree gate garden market station
        behind: person table desk tree gate
        beside: person horse car window piano
        with: umbrella dog basket hat lantern bag violin horse guitar book kitten parrot
        from: village town city island valley hospital museum school castle farm bakery""",
    "animal": """near: river lake house barn tree gate person church
        behind: house barn tree gate shop
        in: garden field forest barn valley park
        beside: person tree door wagon""",
    "object": """on: table chair bench bed desk sofa shelf piano
        in: box basket bag cabinet
        near: window door lamp bed
        behind: door piano clock cabinet""",
    "clothing": """on: table chair bench bed sofa shelf
        in: box basket bag cabinet
        near: window door bed""",
    "instrument": """near: window door bed
        in: church school theater museum shop""",
    "furniture": """near: window door piano
        in: church school garden kitchen library hotel""",
    "document": """from: person kin
        about: king queen soldier sailor animal island city castle ship painter
        on: table desk shelf bed""",
    "art": "of: king queen animal castle bridge mountain ship boy girl child sailor village river dancer",
    "thought": "of: king mayor teacher scientist student doctor judge captain",
    "food": """on: table plate shelf
        in: basket box bag bowl kitchen""",
    "vehicle": """near: church station harbor bridge gate house
        behind: house barn school shop hotel
        of: doctor farmer king mayor neighbor merchant captain""",
    "building": """near: river lake forest park market harbor bridge
        behind: church park hill station school
        of: king queen prince princess merchant mayor monk""",
    "area": """near: river lake castle mountain church
        behind: church school palace hotel""",
    "plant": """near: house church gate river window
        behind: house school barn church
        in: garden park field""",
    "tune": "about: king queen soldier sailor animal island mountain river",
    "landscape": "near: village city castle forest farm",
    "opening": "of: house church castle school library museum hotel shop hospital cottage barn theater",
}


def _read(text: str) -> tuple[tuple[str, tuple[Noun, ...]], ...]:
    lines = (line.partition(":") for line in text.splitlines())
    return tuple((preposition.strip(), nouns(description)) for preposition, _, description in lines)


ATTACHMENTS = {kind: _read(text) for kind, text in _ATTACHMENTS.items()}
"""Class of the noun: (preposition, nouns that can follow it)."""
