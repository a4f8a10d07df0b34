"""The types of sentence with their weights, and the stream of labelled sentences that a seed gives."""

from collections.abc import Callable
from itertools import count

from polarlens.english import compound, simple
from polarlens.english.clauses import finish
from polarlens.english.draw import Draw
from polarlens.english.nouns import BY_LEMMA
from polarlens.english.tree import Node, Sentence

KINDS: dict[str, tuple[float, Callable[[Draw], Node]]] = {
    "intransitive": (9, simple.intransitive),
    "transitive": (14, simple.transitive),
    "prepositional": (5, simple.prepositional),
    "ditransitive": (6, simple.ditransitive),
    "modified": (6, simple.modified),
    "copular": (7, simple.copular),
    "nominal": (2, simple.nominal),
    "located": (3, simple.located),
    "linking": (3, simple.linking),
    "passive": (5, simple.passive),
    "existential": (3, simple.existential),
    "reflexive": (3, simple.reflexive),
    "yes-no question": (4, simple.yes_no),
    "wh question": (4, simple.wh_question),
    "subject relative": (6, compound.subject_relative),
    "object relative": (6, compound.object_relative),
    "complement": (5, compound.complement),
    "infinitive": (5, compound.infinitive),
    "coordinated clauses": (4, compound.coordinated_clauses),
    "coordinated verbs": (4, compound.coordinated_verbs),
    "coordinated subjects": (4, compound.coordinated_subjects),
    "adverbial": (7, compound.adverbial),
    "fronted time": (3, compound.fronted_time),
}
"""Type of sentence: weight and builder."""
_WEIGHTED = tuple((weight, kind) for kind, (weight, _) in KINDS.items())


def one(draw: Draw) -> Sentence:
    """One sentence of a type drawn by weight, by chance with an object that is specified further."""
    kind = draw.weighted(_WEIGHTED)
    root = KINDS[kind][1](draw)
    asks = kind.endswith("question")
    if not asks and draw.chance(0.15):
        _specify_objects(draw, root)
    return finish(root, kind, "?" if asks else ".")


def _specify_objects(draw: Draw, root: Node) -> None:
    nodes = [node for node, _ in root.in_order()]
    used = {node.lemma for node in nodes}
    for node in nodes:
        free = not node.after and all(child.deprel != "nmod:poss" for child in node.before)
        if node.deprel == "obj" and node.upos == "NOUN" and free:
            simple.specify(draw, node, BY_LEMMA[node.lemma], used)


def sentences(seed: int, n: int) -> list[Sentence]:
    """`n` different labelled sentences. The first k are the same whatever `n` is; nothing but `seed` decides them."""
    chosen: dict[str, Sentence] = {}
    attempts = count()
    while len(chosen) < n:
        sentence = one(Draw("sentence", seed, next(attempts)))
        chosen.setdefault(sentence.text, sentence)
    return list(chosen.values())
