"""Files: trees as CoNLL-U, minimal pairs as JSON lines, passages as text. UTF-8 with Unix line ends everywhere."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from polarlens.english.pairs import MinimalPair
from polarlens.english.tree import Sentence


def _write(path: str | Path, lines: Iterable[str]) -> None:
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def conllu(sentence: Sentence, sent_id: str) -> str:
    """One sentence in CoNLL-U, contracted words as ranges, without the empty line at the end."""
    lines = [f"# sent_id = {sent_id}", f"# text = {sentence.text}"]
    last_of = dict(sentence.ranges)
    inside = {i for first, last in sentence.ranges for i in range(first, last + 1)}
    for i, token in enumerate(sentence.tokens, start=1):
        if i in last_of:
            members = sentence.tokens[i - 1 : last_of[i]]
            form = "".join(member.form for member in members)
            lines.append(f"{i}-{last_of[i]}\t{form}" + "\t_" * 7 + f"\t{_spacing(members[-1].space_after)}")
        features = "|".join(f"{name}={token.feats[name]}" for name in sorted(token.feats)) or "_"
        misc = "_" if i in inside else _spacing(token.space_after)
        lines.append(
            f"{i}\t{token.form}\t{token.lemma}\t{token.upos}\t_\t{features}\t{token.head}\t{token.deprel}\t_\t{misc}"
        )
    return "\n".join(lines)


def _spacing(space_after: bool) -> str:
    return "_" if space_after else "SpaceAfter=No"


def write_conllu(path: str | Path, sentences: Iterable[Sentence]) -> None:
    """Write trees; `sent_id` counts from 1."""
    _write(path, (conllu(sentence, str(i)) + "\n" for i, sentence in enumerate(sentences, start=1)))


def write_pairs(path: str | Path, pairs: Iterable[MinimalPair]) -> None:
    """Write one JSON object a line with the fields of `MinimalPair`."""
    _write(path, (json.dumps(asdict(pair), ensure_ascii=False) for pair in pairs))


def write_passages(path: str | Path, passages: Iterable[str]) -> None:
    """Write one passage a line."""
    _write(path, passages)
