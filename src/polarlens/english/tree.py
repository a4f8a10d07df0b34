"""Trees and sentences: a `Node` is a word with its dependents on either side, a `Sentence` the same in a row."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from polarlens.english.morphology import article

ARTICLE = "a"


@dataclass(eq=False)
class Node:
    """A word with its dependents in surface order.

    form, lemma, upos, feats: as in CoNLL-U; the form `a` becomes `an` where the next word asks for it.
    deprel: relation to the head, set when the node is attached.
    before, after: dependents that precede and follow the word.
    glued: written without a space before it (punctuation, n't, 's).
    index: 1-based position, set by `sentence`.
    """

    form: str
    lemma: str
    upos: str
    feats: dict[str, str] = field(default_factory=dict)
    deprel: str = "root"
    before: list["Node"] = field(default_factory=list)
    after: list["Node"] = field(default_factory=list)
    glued: bool = False
    index: int = 0

    def add(self, node: "Node", deprel: str, *, before: bool = False) -> "Node":
        """Attach a dependent after (or `before`) those that are there already; returns self."""
        node.deprel = deprel
        (self.before if before else self.after).append(node)
        return self

    def in_order(self) -> Iterator[tuple["Node", "Node | None"]]:
        """Nodes of the subtree in surface order, each with its head (None for this node)."""
        for child in self.before:
            yield from ((node, head or self) for node, head in child.in_order())
        yield self, None
        for child in self.after:
            yield from ((node, head or self) for node, head in child.in_order())


@dataclass(frozen=True)
class Token:
    """One syntactic word. `head` is the 1-based position of its head, 0 for the root."""

    form: str
    lemma: str
    upos: str
    feats: dict[str, str]
    head: int
    deprel: str
    space_after: bool


@dataclass(frozen=True)
class Sentence:
    """A labelled sentence.

    tokens: syntactic words in order.
    kind: the type of sentence that the grammar built.
    ranges: (first, last) 1-based positions of words written as one, such as do + n't.
    """

    tokens: tuple[Token, ...]
    kind: str
    ranges: tuple[tuple[int, int], ...] = ()

    @property
    def text(self) -> str:
        """The sentence as it is written."""
        return "".join(token.form + " " * token.space_after for token in self.tokens).rstrip()

    def spans(self) -> list[tuple[int, int]]:
        """Character span in `text` of each token, end exclusive."""
        spans, start = [], 0
        for token in self.tokens:
            spans.append((start, start + len(token.form)))
            start += len(token.form) + token.space_after
        return spans

    def depths(self) -> list[int]:
        """Parse depth of each token: number of arcs up to the root, 0 for the root itself."""
        depths = []
        for token in self.tokens:
            depth, head = 0, token.head
            while head:
                depth, head = depth + 1, self.tokens[head - 1].head
            depths.append(depth)
        return depths


def sentence(root: Node, kind: str) -> Sentence:
    """Put a tree in a row: capital letter, article, spaces, contracted words. Sets `index`, changes nothing else."""
    pairs = list(root.in_order())
    for index, (node, _) in enumerate(pairs, start=1):
        node.index = index
    tokens, ranges = [], []
    for i, (node, head) in enumerate(pairs):
        following = pairs[i + 1][0] if i + 1 < len(pairs) else None
        form = article(following.form) if node.form == ARTICLE and following else node.form
        if i == 0:
            form = form[0].upper() + form[1:]
        space = following is not None and not following.glued
        tokens.append(
            Token(form, node.lemma, node.upos, dict(node.feats), head.index if head else 0, node.deprel, space)
        )
        if node.glued and node.upos != "PUNCT":
            ranges.append((i, i + 1))
    return Sentence(tuple(tokens), kind, tuple(ranges))
