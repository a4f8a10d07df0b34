"""What direction and magnitude encode: probes for part of speech and syntax, trained once, read before and after.

For each block, representation and pooling: a classifier of parts of speech and one of a control task, and ridge
regressions of parse depth and arc length on the representation alone and beside confounds. Trained on the training
words of clean states; the dev words choose the penalty; the held-out words are scored, clean or perturbed.

Rows
----
One per held-out sentence, block, representation, target, metric and pooling, with `score` and `weight` as sums over
the sentence's words: the metric is sum(score) / sum(weight) (see `scores`), a fraction. The same sentences carry the
same weights under every representation, so differences and gains are paired, and every value, interval and claim is
rebuilt from rows alone. Clean rows have no `after_arm`; rows after a perturbation name it, and its condition, and read
`READ_AFTER` alone. Baselines do not depend on a state: representation `majority` (accuracy of the most frequent part of
speech), `confounds` and `confounds+upos` (r2 of these alone), without block and pooling.
"""

from collections.abc import Sequence as Many
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from polarlens.engine.conditions import Condition
from polarlens.probing import scores
from polarlens.probing.extraction import States
from polarlens.probing.fits import (
    CLASS_PENALTIES,
    RIDGE_PENALTIES,
    Classifier,
    Regression,
    Ridge,
    chosen,
    classifier,
    fitting,
    majority,
)
from polarlens.probing.representations import REPRESENTATIONS, Entered, Features
from polarlens.probing.split import split
from polarlens.probing.words import TARGETS, Array, BoolArray, Words, check, confounds, control_labels

Column = npt.NDArray[Any]
CELL = ("block", "representation", "target", "metric", "pooling")
BESIDE = {"none": "r2", "confounds": "gain", "confounds+upos": "gain_upos"}
# After a perturbation: whether what the probe reads is still there, for what the two arms move.
READ_AFTER = (("upos", "accuracy"), ("depth", "r2"), ("depth", "gain"))
REPRESENTATIONS_AFTER = ("direction", "norm", "full")


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


def parts_of(words: Words) -> dict[str, BoolArray]:
    """Part -> (N,) bool, its words. Raises UsageError where nothing can be learned (see `words.check`)."""
    sentences = split([tree.tree.cluster for tree in words.trees])
    parts = {name: words.of_sentences(chosen) for name, chosen in sentences.items()}
    check(words, parts["train"], TARGETS)
    return parts


class Probes:
    """All probes of one treebank. Raises UsageError where nothing can be learned (see `words.check`)."""

    def __init__(self, words: Words, *, seed: int = 0) -> None:
        self.words, self.parts = words, parts_of(words)
        train = self.parts["train"]
        self.confounds, self.used = confounds(words, train)
        self.control = control_labels(words, train, seed)
        trees = [tree.tree for tree in words.trees]
        self._sentence = {
            name: np.array([getattr(tree, name) for tree in trees], dtype=object)
            for name in ("dataset", "cluster", "item")
        }
        self.fitted: list[Probe] = []

    def _known(self, target: str, part: str) -> BoolArray:
        return self.parts[part] & self.words.known(target)

    @cached_property
    def tested(self) -> list[int]:
        """The held-out sentences that have words, as indices into `words.trees`."""
        return sorted(set(self.words.sentence[self.parts["test"]].tolist()))

    @property
    def unconverged(self) -> int:
        """Classifiers whose fit did not converge."""
        return sum(not fit.converged for probe in self.fitted for fit in (probe.tags, probe.control))

    def fit(self, states: States) -> None:
        """Train on clean states of all words, at every block and pooling that they hold.

        Every fit runs on one thread and several fits at a time, so that no bit depends on the number of threads.
        """
        threads = torch.get_num_threads()  # before `fitting` says 1
        with fitting(), ThreadPoolExecutor(threads) as pool:
            for pooling in states.states:
                for block in states.blocks:
                    at, profile = states.at(block, pooling), states.profile(block, pooling)
                    self.fitted += pool.map(partial(self._fit, block, pooling, at, profile), REPRESENTATIONS)

    def _fit(self, block: int, pooling: str, at: Array, profile: Array, name: str) -> Probe:
        representation = REPRESENTATIONS[name]
        values = representation.of(at, profile)
        entered = Entered.fitted(values[self.parts["train"]], binned=representation.binned)
        x = entered(values)
        del values  # as large as the states, in each thread
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

    @cached_property
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
        for (target, kind), fit in self.alone.items():
            if kind != "none":
                test = self._known(target, "test")
                sums = scores.r2(self.words.numbers(target)[test], fit.predict(self.confounds[test], None))
                parts.append(self._part(sums, test, target=target, metric="r2", representation=kind))
        return _frame(parts)

    def score(self, states: States, after: Condition | None = None) -> pd.DataFrame:
        """Rows of the held-out words, at the blocks and poolings that `states` (of these words alone) hold."""
        parts = []
        for probe in self.fitted:
            if probe.block not in states.blocks or probe.pooling not in states.states:
                continue
            if after is not None and probe.representation not in REPRESENTATIONS_AFTER:
                continue
            at, profile = states.at(probe.block, probe.pooling), states.profile(probe.block, probe.pooling)
            x = probe.entered(REPRESENTATIONS[probe.representation].of(at, profile))
            named = {"block": probe.block, "representation": probe.representation, "pooling": probe.pooling}
            for target in TARGETS:
                known = self._known(target, "test")
                read = x[known[self.parts["test"]]]
                found = (
                    self._tags(probe, known, read) if target == "upos" else self._numbers(probe, target, known, read)
                )
                for metric, sums in found.items():
                    if after is None or (target, metric) in READ_AFTER:
                        parts.append(self._part(sums, known, target=target, metric=metric, **named))
        return _frame(parts, after)

    def _tags(self, probe: Probe, known: BoolArray, x: Features) -> dict[str, scores.Sums]:
        correct = probe.tags.predict(x) == self.words.upos[known]
        control = probe.control.predict(x) == self.control[known]
        return {"accuracy": scores.right(correct), "selectivity": scores.selective(correct, control)}

    def _numbers(self, probe: Probe, target: str, known: BoolArray, x: Features) -> dict[str, scores.Sums]:
        y, c = self.words.numbers(target)[known], self.confounds[known]
        found = {}
        for kind, metric in BESIDE.items():
            predicted = probe.beside[target, kind].predict(c, x)
            if kind == "none":
                found[metric] = scores.r2(y, predicted)
                if (ranks := scores.spearman(y, predicted)) is not None:
                    found["spearman"] = ranks
            else:
                found[metric] = scores.gain(y, self.alone[target, kind].predict(c, None), predicted)
        return found

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
