"""From a model and aligned trees to rows of probes: states, fits, and reading after a perturbation."""

from collections.abc import Iterator
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from polarlens.engine.conditions import Condition
from polarlens.engine.engine import Engine
from polarlens.engine.outcome import Realised
from polarlens.errors import UsageError
from polarlens.probing.alignment import AlignedTree, AlignedTrees
from polarlens.probing.extraction import (
    MEMORY,
    POOLINGS,
    States,
    clean_passes,
    clean_states,
    default_blocks,
    perturbed_states,
    rows_of,
)
from polarlens.probing.probes import Probes, parts_of
from polarlens.probing.words import words_of

if TYPE_CHECKING:
    from polarlens.models import LanguageModel


@dataclass(frozen=True)
class Probed:
    """Trained probes of one model and treebank.

    held_out: clean states of the held-out words. trees: the sentences that these are in, which is what a perturbation
    is run on.
    """

    probes: Probes
    held_out: States
    trees: tuple[AlignedTree, ...]
    has_bos: bool
    batch_tokens: int

    def clean(self) -> pd.DataFrame:
        """Rows of the unperturbed held-out sentences, and of the baselines (see `probes`)."""
        return pd.concat([self.probes.baselines(), self.probes.score(self.held_out)], ignore_index=True)

    def after(
        self, engine: Engine, conditions: Many[Condition]
    ) -> Iterator[tuple[Condition, pd.DataFrame, list[Realised]]]:
        """Rows of the held-out sentences after each perturbation, and what its passes realised; one clean pass for all.

        The blocks are those from the first perturbed one on; a table without rows where none of them was probed.
        """
        passes = clean_passes(engine, self.trees, has_bos=self.has_bos, batch_tokens=self.batch_tokens)
        for condition in conditions:
            states, realised = perturbed_states(engine, self.trees, condition, self.held_out, passes)
            yield condition, self.probes.score(states, condition) if states.blocks else pd.DataFrame(), realised

    @property
    def counts(self) -> dict[str, int]:
        """Sentences, words by part, and classifiers whose fit did not converge."""
        words = {f"{part}_words": int(chosen.sum()) for part, chosen in self.probes.parts.items()}
        return {"sentences": len(self.probes.words.trees), **words, "unconverged": self.probes.unconverged}


def check_trees(trees: AlignedTrees) -> None:
    """Raise UsageError where no probe can be trained on these trees (see `words.check`); needs no model."""
    parts_of(words_of(trees.items))


def probe(
    lm: "LanguageModel", trees: AlignedTrees, *, has_bos: bool, blocks: tuple[int, ...] | None = None,
    poolings: Many[str] = POOLINGS, batch_tokens: int = 2048, memory: int = MEMORY, seed: int = 0,
) -> Probed:  # fmt: skip
    """Train the probes on the clean states of a treebank.

    blocks: -1 for the embeddings; by default `default_blocks`. memory: bytes of states past which they lie on disk.
    seed: of the control task.

    Raises UsageError for blocks that the model does not have, and where nothing can be learned (see `words.check`).
    """
    blocks = default_blocks(lm.n_layers) if blocks is None else tuple(sorted(set(blocks)))
    if not blocks or not -1 <= blocks[0] <= blocks[-1] < lm.n_layers:
        fix = f"Blocks are numbered 0 to {lm.n_layers - 1}, the embeddings -1."
        raise UsageError(f"no such blocks to probe: {blocks}", where=lm.name, fix=fix)
    probes = Probes(words_of(trees.items), seed=seed)
    states = clean_states(lm, trees.items, blocks, poolings, has_bos=has_bos, batch_tokens=batch_tokens, memory=memory)
    probes.fit(states)
    tested = tuple(probes.words.trees[s] for s in probes.tested)
    return Probed(probes, rows_of(states, probes.parts["test"]), tested, has_bos, batch_tokens)
