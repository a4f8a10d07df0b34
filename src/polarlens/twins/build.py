"""`twins train`: from text files to two models with their cards; a killed run goes on where it was."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from polarlens.data import read_pairs
from polarlens.errors import UsageError
from polarlens.protocol.environment import processor, versions
from polarlens.protocol.progress import say, tracked
from polarlens.rows.store import write_json
from polarlens.twins.cards import TRAINING, write_cards
from polarlens.twins.corpus import Corpus, read_corpus
from polarlens.twins.recipe import NORMS, Norm, Recipe, name_of

DEFAULT_STEPS = 2_400
_TOKENIZER_DOCUMENTS = 20_000
_SAMPLE_STEPS = 4


def build_twins(
    texts: Sequence[str | Path],
    out: Path,
    *,
    pairs: Sequence[str] = (),
    steps: int | None = None,
    minutes: float | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> dict[Norm, Path]:
    """Train both twins on `texts` and write `out/twin-layernorm` and `out/twin-rmsnorm`, each with its card.

    pairs: files of minimal pairs for the cards. steps: optimiser steps; minutes: instead, as many as fit, by the time
    of 20 steps. `out/work` holds what a repeated call goes on from.

    Raises UsageError for unusable text, a folder that holds another run or cannot be written.
    """
    from polarlens.twins.workers import train_both

    if not texts:
        raise UsageError("no text to train on", where="--text", fix="Give text files or a folder of them: --text PATH.")
    if steps is not None and minutes is not None:
        raise UsageError("both --steps and --minutes are given", where="twins train", fix="Give one of them.")
    if (steps is not None and steps < 1) or (minutes is not None and not 0 < minutes < math.inf):
        raise UsageError("there must be something to train", where="--steps, --minutes", fix="Give a positive number.")
    if pairs:
        read_pairs(pairs)  # so that a bad file is found before the training, not after it
    corpus = read_corpus(texts)
    work = _work_folder(out)
    plan = {"corpus": corpus.digest, "seed": seed, "steps": steps, "minutes": minutes}
    recipe = _recipe(work, plan, corpus, quiet=quiet)
    say(f"{recipe.steps:,} steps of {recipe.batch} x {recipe.length} tokens for each twin", quiet=quiet)
    losses: dict[Norm, float] = {}
    done = dict.fromkeys(NORMS, 0)
    with tracked(2 * recipe.steps, "training", quiet=quiet) as advance:

        def told(norm: Norm, step: int, loss: float) -> None:
            losses[norm] = loss if norm not in losses else 0.98 * losses[norm] + 0.02 * loss
            note = ", ".join(f"{name} {value:.3f}" for name, value in sorted(losses.items()))
            # A continued run reports its first step far from 0.
            advance(step - done[norm], f"loss {note}")
            done[norm] = step

        seconds = train_both(recipe, work, told)
    for norm in NORMS:
        save_twin(norm, recipe, corpus, work, out / name_of(norm), seconds[norm])
    say("evaluating", quiet=quiet)
    write_cards(out, corpus, pairs)
    return {norm: out / name_of(norm) for norm in NORMS}


def save_twin(norm: Norm, recipe: Recipe, corpus: Corpus, work: Path, folder: Path, seconds: float) -> None:
    """Write the trained model in float16 with its tokenizer, and `training.json`, what its card says of training."""
    from transformers import AutoTokenizer

    from polarlens.twins.architecture import build, weights_digest
    from polarlens.twins.batches import order_digest
    from polarlens.twins.training import load_checkpoint
    from polarlens.twins.workers import checkpoint_of

    model = build(norm, recipe)
    started = weights_digest(model)
    state = load_checkpoint(checkpoint_of(work, norm), recipe)
    if state is None:
        raise UsageError("the checkpoint is gone", where=str(checkpoint_of(work, norm)), fix="Train again.")
    model.load_state_dict(state["model"])
    model.half().save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(work / "tokenizer")
    tokenizer.save_pretrained(folder)
    rows = np.load(work / "rows.npy", mmap_mode="r")
    write_json(folder / TRAINING, {
        "norm": norm,
        "recipe": asdict(recipe),
        "text": {"files": list(corpus.files), "held_out": list(corpus.held_out_files), "sha256": corpus.digest},
        "initial_weights_sha256": started,
        "first_1000_batches_sha256": order_digest(rows, recipe.batch),
        "seconds": round(seconds, 1),
        "processor": processor(),
        "versions": versions(),
    })  # fmt: skip


def _work_folder(out: Path) -> Path:
    work = out / "work"
    try:
        work.mkdir(parents=True, exist_ok=True)
        (work / ".writable").write_bytes(b"")
        (work / ".writable").unlink()
    except OSError as error:
        fix = "Give a folder that can be written: --out DIR."
        raise UsageError(f"the folder cannot be written: {error.strerror}", where=str(out), fix=fix) from None
    return work


def _recipe(work: Path, plan: dict[str, Any], corpus: Corpus, *, quiet: bool) -> Recipe:
    """The recipe of this folder: the stored one when the same was asked before, else a new one with its rows."""
    from polarlens.twins.workers import MEASURED_STEPS, seconds_per_step

    path = work / "recipe.json"
    if path.exists():
        stored = json.loads(path.read_text("utf-8"))
        if stored["plan"] != plan:
            asked = ", ".join(
                f"{key} {stored['plan'][key]} and now {plan[key]}" for key in plan if stored["plan"][key] != plan[key]
            )
            raise UsageError(
                f"the folder holds another training run: {asked}", where=str(work), fix="Give another --out."
            )
        return Recipe(**stored["recipe"] | {"betas": tuple(stored["recipe"]["betas"])})
    recipe = Recipe(plan["steps"] or DEFAULT_STEPS, plan["seed"])
    if plan["minutes"] is not None:
        _write_rows(work / "sample.npy", work, corpus, replace(recipe, steps=_SAMPLE_STEPS))
        say(f"measuring {MEASURED_STEPS} steps", quiet=quiet)
        each = seconds_per_step(recipe, work)
        recipe = replace(recipe, steps=max(1, int(60 * plan["minutes"] / each)))
        say(f"{each:.2f} s a step", quiet=quiet)
    say("making the rows of tokens", quiet=quiet)
    _write_rows(work / "rows.npy", work, corpus, recipe)
    write_json(path, {"plan": plan, "recipe": asdict(recipe)})
    return recipe


def _write_rows(path: Path, work: Path, corpus: Corpus, recipe: Recipe) -> None:
    from polarlens.twins.batches import training_rows
    from polarlens.twins.tokenizer import train_tokenizer

    tokenizer = train_tokenizer(tokenizer_documents(corpus, recipe), recipe.vocabulary, recipe.length)
    tokenizer.save_pretrained(work / "tokenizer")
    np.save(path, training_rows(corpus, tokenizer, recipe))


def tokenizer_documents(corpus: Corpus, recipe: Recipe) -> list[str]:
    """What the tokenizer is trained on: all training paragraphs, and generated documents."""
    from polarlens.twins.generated import training_documents

    return [*corpus.training, *islice(training_documents(recipe.seed), _TOKENIZER_DOCUMENTS)]
