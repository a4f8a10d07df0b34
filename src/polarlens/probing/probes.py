"""What direction and magnitude encode: probes for part of speech and syntax, trained once, read before and after.

For each block, representation and pooling: a classifier of parts of speech and one of a control task, and ridge
regressions of parse depth and arc length on the representation alone and beside confounds. Trained on the training
words of clean states; the dev words choose the penalty; the held-out words are scored, clean or perturbed.

Rows
----
One per held-out sentence, block, representation, target, metric and pooling, with `score` and `weight` as sums over
the sentence's words: the metric is sum(score) / sum(weight) (see `scores`), a fraction. The same sentences carry the
same weights under every representation, so differences and gains are paired, and every value, interval and claim is
rebuilt from rows alone. Clean rows have no `after_arm`; rows after a perturbation name it, and its condition. Baselines
do not depend on a state: representation `majority` (accuracy of the most frequent part of speech), `confounds` and
`confounds+upos` (r2 of these alone), without block and pooling.
"""

from collections import Counter
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from polarlens.engine.conditions import Condition, Protocol
from polarlens.errors import UsageError
from polarlens.probing import scores
from polarlens.probing.alignment import AlignedTrees
from polarlens.probing.extraction import (
    MEMORY,
    POOLINGS,
    States,
    clean_states,
    default_blocks,
    perturbed_states,
    rows_of,
)
from polarlens.probing.fits import (
    CLASS_PENALTIES,
    RIDGE_PENALTIES,
    Classifier,
    Regression,
    Ridge,
    chosen,
    classifier,
    majority,
)
from polarlens.probing.representations import REPRESENTATIONS, Entered
from polarlens.probing.split import split
from polarlens.probing.words import TARGETS, Array, BoolArray, Words, check, confounds, control_labels, words_of

if TYPE_CHECKING:
    from polarlens.models import LanguageModel

Column = npt.NDArray[Any]
CELL = ("block", "representation", "target", "metric", "pooling")
BESIDE = {"none": "r2", "confounds": "gain", "confounds+upos": "gain_upos"}


@dataclass(frozen=True)
class Probe:
    """What was fitted at one block on one representation. beside: (target, set of confounds) -> regression."""

    block: int
    representation: str
    pooling: str
    entered: Entered
    tags: Classifier
    control: Classifier
    beside: dict[tuple[str, str], Regression]


@dataclass
class ProbeResult:
    """Rows (see the module), and counts: sentences and words by part, words left out, fits that did not converge.

    undefined: metrics left out, with the number of cells, because a side does not vary.
    """

    rows: pd.DataFrame
    counts: dict[str, int]
    skipped: Counter[str]
    undefined: Counter[str] = field(default_factory=Counter)


class Probes:
    """All probes of one treebank. Raises UsageError where nothing can be learned (see `words.check`)."""

    def __init__(self, words: Words, *, seed: int = 0) -> None:
        self.words = words
        self.parts = {
            name: words.of_sentences(sentences)
            for name, sentences in split([tree.tree.cluster for tree in words.trees]).items()
        }
        train = self.parts["train"]
        check(words, train, TARGETS)
        self.confounds, self.used = confounds(words, train)
        self.control = control_labels(words, train, seed)
        trees = [tree.tree for tree in words.trees]
        self._sentence = {
            name: np.array([getattr(tree, name) for tree in trees], dtype=object)
            for name in ("dataset", "cluster", "item")
        }
        self.fitted: list[Probe] = []
        self.undefined: Counter[str] = Counter()

    def _known(self, target: str, part: str) -> BoolArray:
        return self.parts[part] & self.words.known(target)

    def fit(self, states: States) -> None:
        """Train on clean states of all words, at every block and pooling that they hold."""
        for pooling in states.states:
            for block in states.blocks:
                at, profile = states.at(block, pooling), states.profile(block, pooling)
                for name in REPRESENTATIONS:
                    self.fitted.append(self._fit(block, name, pooling, at, profile))

    def _fit(self, block: int, name: str, pooling: str, at: Array, profile: Array) -> Probe:
        representation = REPRESENTATIONS[name]
        values = representation.of(at, profile)
        entered = Entered.fitted(values[self.parts["train"]], binned=representation.binned)
        x = entered(values)
        train, dev = (self._known("upos", part) for part in ("train", "dev"))
        tags = classifier(x[train], self.words.upos[train], x[dev], self.words.upos[dev], CLASS_PENALTIES)
        control = classifier(x[train], self.control[train], x[dev], self.control[dev], (tags.penalty,))
        beside = {}
        for target in TARGETS[1:]:
            y = self.words.numbers(target)
            train, dev = (self._known(target, part) for part in ("train", "dev"))
            ridge = Ridge(self.confounds[train], x[train], y[train])
            for kind, used in self.used.items():
                fits = ridge.path(used, RIDGE_PENALTIES)
                beside[target, kind] = chosen(fits, self.confounds[dev], x[dev], y[dev])
        return Probe(block, name, pooling, entered, tags, control, beside)

    def alone(self) -> dict[tuple[str, str], Regression]:
        """(target, set of confounds) -> the regression on these alone."""
        out = {}
        for target in TARGETS[1:]:
            train = self._known(target, "train")
            nothing = np.zeros((int(train.sum()), 0), dtype=np.float32)
            ridge = Ridge(self.confounds[train], nothing, self.words.numbers(target)[train])
            out.update({(target, kind): ridge.alone(used) for kind, used in self.used.items()})
        return out

    def baselines(self) -> pd.DataFrame:
        """Rows of what needs no state."""
        parts = []
        test = self._known("upos", "test")
        guess = majority(self.words.upos[self._known("upos", "train")])
        sums = scores.right(self.words.upos[test] == guess)
        parts.append(self._part(sums, test, target="upos", metric="accuracy", representation="majority"))
        for (target, kind), fit in self.alone().items():
            if kind != "none":
                test = self._known(target, "test")
                sums = scores.r2(self.words.numbers(target)[test], fit.predict(self.confounds[test], None))
                parts.append(self._part(sums, test, target=target, metric="r2", representation=kind))
        return _frame(parts)

    def score(self, states: States, after: Condition | None = None) -> pd.DataFrame:
        """Rows of the held-out words, at the blocks that `states` (of these words alone) hold."""
        parts = []
        baseline = self.alone()
        test = self.parts["test"]
        for probe in self.fitted:
            if probe.block not in states.blocks:
                continue
            at, profile = states.at(probe.block, probe.pooling), states.profile(probe.block, probe.pooling)
            x = probe.entered(REPRESENTATIONS[probe.representation].of(at, profile))
            named = {"block": probe.block, "representation": probe.representation, "pooling": probe.pooling}
            known = self._known("upos", "test")
            labelled = x[known[test]]
            correct = probe.tags.predict(labelled) == self.words.upos[known]
            control = probe.control.predict(labelled) == self.control[known]
            for metric, sums in (
                ("accuracy", scores.right(correct)),
                ("selectivity", scores.selective(correct, control)),
            ):
                parts.append(self._part(sums, known, target="upos", metric=metric, **named))
            for target in TARGETS[1:]:
                known = self._known(target, "test")
                y, c, xs = self.words.numbers(target)[known], self.confounds[known], x[known[test]]
                for kind, metric in BESIDE.items():
                    predicted = probe.beside[target, kind].predict(c, xs)
                    found = {
                        metric: scores.r2(y, predicted)
                        if kind == "none"
                        else scores.gain(y, baseline[target, kind].predict(c, None), predicted)
                    }
                    if kind == "none" and (ranks := scores.spearman(y, predicted)) is not None:
                        found["spearman"] = ranks
                    elif kind == "none":
                        self.undefined[f"spearman of {target}: a side does not vary"] += 1
                    for name, sums in found.items():
                        parts.append(self._part(sums, known, target=target, metric=name, **named))
        return _frame(parts, after)

    def _part(self, sums: scores.Sums, known: BoolArray, **named: object) -> dict[str, Column]:
        """Columns with one entry per sentence that has a known word; `sums` of these words."""
        sentences, code = np.unique(self.words.sentence[known], return_inverse=True)
        n = len(sentences)
        score, weight = (np.bincount(code, weights=values, minlength=n) for values in sums)
        sentence = {name: values[sentences] for name, values in self._sentence.items()}
        cell = {name: np.full(n, named.get(name), dtype=object) for name in CELL}
        return {**sentence, **cell, "n_words": np.bincount(code, minlength=n), "score": score, "weight": weight}


def _frame(parts: Many[dict[str, Column]], after: Condition | None = None) -> pd.DataFrame:
    """One table of all parts, made at once, since each small one costs as much as a large one."""
    rows = pd.DataFrame({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    rows["block"] = rows["block"].astype("Int64")
    rows["after_arm"] = None if after is None else after.arm
    for name in ("sign", "delta", "seed", "policy_id", "positions"):
        rows[name] = None if after is None else getattr(after, name)
    return rows.astype({"sign": "Int8", "seed": "Int64", "delta": "float64"})


def probe(
    lm: "LanguageModel", trees: AlignedTrees, *, has_bos: bool, blocks: tuple[int, ...] | None = None,
    poolings: Many[str] = POOLINGS, protocol: Protocol | None = None, conditions: Many[Condition] = (),
    batch_tokens: int = 2048, memory: int = MEMORY, seed: int = 0,
) -> ProbeResult:  # fmt: skip
    """Train the probes on a treebank and score its held-out sentences, clean and after each condition.

    blocks: -1 for the embeddings; by default `default_blocks`. protocol: of the conditions; they are applied to the
    held-out sentences alone, and scored at blocks from the first perturbed one on.
    """
    from polarlens.engine.engine import Engine

    blocks = default_blocks(lm.n_layers) if blocks is None else tuple(sorted(set(blocks)))
    if not blocks or not -1 <= blocks[0] <= blocks[-1] < lm.n_layers:
        fix = f"Blocks are numbered 0 to {lm.n_layers - 1}, the embeddings -1."
        raise UsageError(f"no such blocks to probe: {blocks}", where=lm.name, fix=fix)
    words = words_of(trees.items)
    probes = Probes(words, seed=seed)
    states = clean_states(lm, trees.items, blocks, poolings, has_bos=has_bos, batch_tokens=batch_tokens, memory=memory)
    probes.fit(states)
    held_out = rows_of(states, probes.parts["test"])
    frames = [probes.baselines(), probes.score(held_out)]
    if conditions and protocol is not None:
        engine = Engine(lm, protocol, kl=False)
        of_test = sorted(set(words.sentence[probes.parts["test"]].tolist()))
        tested = [words.trees[s] for s in of_test]
        for condition in conditions:
            after = perturbed_states(
                engine, tested, condition, held_out, has_bos=has_bos, batch_tokens=batch_tokens, memory=memory
            )
            if after.blocks:
                frames.append(probes.score(after, condition))
    counts = {f"{part}_words": int(chosen_.sum()) for part, chosen_ in probes.parts.items()}
    counts |= {"sentences": len(words.trees), "unaligned": trees.unaligned, "shared": trees.shared}
    counts["unconverged"] = sum(not fit.converged for p in probes.fitted for fit in (p.tags, p.control))
    return ProbeResult(pd.concat(frames, ignore_index=True), counts, trees.skipped, probes.undefined)
