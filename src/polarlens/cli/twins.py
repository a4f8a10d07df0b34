"""`polarlens twins`: make the bundled models again, and measure them again."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from polarlens.cli.options import Texts, option
from polarlens.errors import UsageError

twins = typer.Typer(help="The bundled twins: two models that differ in the norm alone.", rich_markup_mode=None)

Corpus = Annotated[Texts, option("--text", "PATH", "Text to train on: .txt files or folders; several times.")]
PairFiles = Annotated[Texts, option("--pairs", "SPEC", "Minimal pairs to report accuracy on; several times.")]


@twins.command()
def train(
    text: Corpus = None,
    out: Annotated[str, option("--out", "DIR", "Where the models go (default twins).")] = "twins",
    steps: Annotated[Optional[int], option("--steps", "N", "Optimiser steps (default 2400).")] = None,  # noqa: UP045
    minutes: Annotated[Optional[float], option("--minutes", "M", "Instead of --steps: as many as fit.")] = None,  # noqa: UP045
    seed: Annotated[int, option("--seed", "N", "Of the initial weights and the order of the data.")] = 0,
    pairs: PairFiles = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> int:
    """Train both twins from text. The same command again goes on where it was."""
    from polarlens.twins.build import build_twins

    folders = build_twins(
        text or (), Path(out), pairs=pairs or (), steps=steps, minutes=minutes, seed=seed, quiet=quiet
    )
    for folder in folders.values():
        print(folder)
    return 0


@twins.command()
def evaluate(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="What `twins train --out` wrote.")],
    text: Corpus = None,
    pairs: PairFiles = None,
    beside: Annotated[
        Texts, option("--beside", "DIR", "Evaluated pairs from other seeds, told beside; several times.")
    ] = None,
) -> int:
    """Measure twins on held-out text and pairs, and write their cards anew."""
    from polarlens.twins.cards import write_cards
    from polarlens.twins.corpus import read_corpus

    if not text:
        raise UsageError("no text is named", where="--text", fix="Give the text that the twins were trained on.")
    write_cards(Path(folder), read_corpus(text), pairs or (), beside or ())
    return 0
