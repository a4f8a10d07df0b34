"""Planted states: what is in the direction, in the norm or in neither is found there and nowhere else; whole runs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from polarlens.data.items import Tree, Word, identity
from polarlens.data.read import read_trees
from polarlens.engine.conditions import Condition, Protocol
from polarlens.engine.engine import Engine
from polarlens.english import sentences, write_conllu
from polarlens.errors import UsageError
from polarlens.models import LanguageModel
from polarlens.perturbation import MATCHED
from polarlens.probing import AlignedTrees, Probes, align_trees, probe
from polarlens.probing.extraction import States, rows_of
from polarlens.probing.words import Words, words_of
from polarlens.statistics.claims_given import given_entry
from polarlens.statistics.probing import ProbeScore, probe_scores, probing_entries, representation_differences
from polarlens.statistics.published import CLAIMS
from tiny import tiny, tiny_tokenizer

SENTENCES, LENGTH, WIDTH = 300, 12, 16
TAGS = ("A", "B", "C", "D")
Plant = Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]


def made_up(seed: int = 0) -> Words:
    """Sentences whose tags and depths are random, 40 word types used alike whatever the tag."""
    g = np.random.default_rng(seed)
    trees = []
    for s in range(SENTENCES):
        heads = [0, *(int(g.integers(1, i)) for i in range(2, LENGTH + 1))]
        depth = [0] * LENGTH
        for i in range(1, LENGTH):
            depth[i] = depth[heads[i] - 1] + 1
        words = tuple(
            Word(f"w{g.integers(40)}", TAGS[g.integers(4)], head, None, d, (0, 1))
            for head, d in zip(heads, depth, strict=True)
        )
        tree = Tree(f"s{s}", words, identity(f"s{s}"), identity(f"s{s}"), "made", s + 1)
        trees.append(SimpleNamespace(tree=tree, tokens=((0,),) * LENGTH))
    return words_of(trees)  # type: ignore[arg-type]


def unit(g: np.random.Generator, n: int) -> np.ndarray:
    x = g.standard_normal((n, WIDTH))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def in_direction(g: np.random.Generator, code: np.ndarray, depth: np.ndarray) -> np.ndarray:
    x = np.eye(WIDTH)[code] + 0.2 * np.eye(WIDTH)[8] * depth[:, None] + 0.1 * g.standard_normal((len(code), WIDTH))
    return x / np.linalg.norm(x, axis=1, keepdims=True) * g.uniform(1, 9, (len(code), 1))


def in_norm(g: np.random.Generator, code: np.ndarray, depth: np.ndarray) -> np.ndarray:
    # not monotone in the tag's number: a linear model on the raw norm could not carve it out
    size = 1 + np.array([1.0, 3.0, 2.0, 4.0])[code] + 0.05 * depth
    return unit(g, len(code)) * size[:, None]


def in_neither(g: np.random.Generator, code: np.ndarray, depth: np.ndarray) -> np.ndarray:
    return unit(g, len(code)) * g.uniform(1, 9, (len(code), 1))


def planted(plant: Plant) -> tuple[dict[tuple[str, str, str], ProbeScore], pd.DataFrame, Probes]:
    words = made_up()
    g = np.random.default_rng(7)
    code = np.array([TAGS.index(tag) for tag in words.upos])
    at = plant(g, code, words.depth)
    noise = in_neither(g, code, words.depth)
    norms = np.stack([np.linalg.norm(noise, axis=1), np.linalg.norm(at, axis=1)], axis=1)
    states = States((0,), {"last": at[None].astype(np.float32)}, {"last": norms})
    probes = Probes(words)
    probes.fit(states)
    rows = pd.concat([probes.baselines(), probes.score(rows_of(states, probes.parts["test"]))], ignore_index=True)
    found = {
        (str(s.named["representation"]), str(s.named["target"]), str(s.named["metric"])): s for s in probe_scores(rows)
    }
    return found, rows, probes


def value(score: ProbeScore) -> float:
    found = score.found.estimate.value
    assert found is not None
    return found


def status(rows: pd.DataFrame, id_: str) -> dict[str, object]:
    """The claim as the summary has it."""
    given = probing_entries(rows.assign(task=None), {}).given[id_]
    (claim,) = [one for one in CLAIMS if one.id == id_]
    return given_entry(claim, given, model="m", preset="matched", delta_mode="relative", n_layers=1)


def near_chance(found: dict[tuple[str, str, str], ProbeScore], representation: str) -> None:
    """Accuracy of four equally frequent tags within 3.5 standard errors of 25 %, gain of depth about 0."""
    se = 100 * np.sqrt(0.25 * 0.75 / (0.2 * SENTENCES * LENGTH))
    assert abs(value(found[representation, "upos", "accuracy"]) - 25) < 3.5 * se + 1
    assert abs(value(found[representation, "depth", "gain"])) < 0.03


def test_the_tag_in_the_direction() -> None:
    found, rows, probes = planted(in_direction)
    assert value(found["direction", "upos", "accuracy"]) > 97
    assert value(found["full", "upos", "accuracy"]) > 90
    assert value(found["direction", "depth", "gain"]) > 0.3
    for name in ("norm", "norm-profile"):
        near_chance(found, name)
    # the control task has random labels: its accuracy sits at its own most frequent label
    test = probes.parts["test"]
    labels = np.unique(probes.control[test].astype(str), return_counts=True)[1].max() / test.sum() * 100
    control = value(found["direction", "upos", "accuracy"]) - value(found["direction", "upos", "selectivity"])
    assert control < labels + 6
    assert status(rows, "C6")["status"] == "replicates"
    c7 = status(rows, "C7")
    assert (c7["status"], c7["why"].split(";")[0]) == ("contradicts", "every interval lies in the band of equivalence")


def test_the_tag_in_the_norm() -> None:
    found, rows, _ = planted(in_norm)
    assert value(found["norm", "upos", "accuracy"]) > 85
    assert value(found["norm-profile", "upos", "accuracy"]) > 85
    for name in ("direction", "random-1d"):
        near_chance(found, name)
    differences = representation_differences(probe_scores(rows), "direction", "norm")
    (difference,) = [found for one, found in differences if one.named["metric"] == "accuracy"]
    assert difference.estimate.value == pytest.approx(
        value(found["direction", "upos", "accuracy"]) - value(found["norm", "upos", "accuracy"])
    )
    assert status(rows, "C6")["status"] == "contradicts"


def test_depth_in_the_norm() -> None:
    found, rows, _ = planted(lambda g, code, depth: unit(g, len(code)) * (1 + depth[:, None]))
    assert value(found["norm", "depth", "gain"]) > 0.4
    assert value(found["norm", "depth", "spearman"]) > 0.95
    near_chance(found, "direction")
    assert status(rows, "C7")["status"] == "replicates"


def test_the_tag_in_neither() -> None:
    found, *_ = planted(in_neither)
    for name in ("direction", "norm", "full", "norm-profile", "random-1d"):
        near_chance(found, name)
    assert abs(value(found["majority", "upos", "accuracy"]) - 25) < 6
    # position and length do tell depth
    assert value(found["confounds", "depth", "r2"]) > 0.1
    assert ("confounds+upos", "depth", "r2") in found


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tree, ...]:
    path: Path = tmp_path_factory.mktemp("trees") / "a.conllu"
    write_conllu(path, sentences(1, 60))
    return read_trees([str(path)]).items


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return LanguageModel(tiny("llama"), tiny_tokenizer())


def aligned(trees: tuple[Tree, ...], lm: LanguageModel) -> AlignedTrees:
    return align_trees(trees, lm.tokenizer, 0, window=lm.window)


def test_runs_agree_in_any_order_and_perturbations_move_what_they_should(
    english: tuple[Tree, ...], lm: LanguageModel
) -> None:
    conditions = [Condition("m", "all", arm, 0.4, 0, sign) for arm in ("magnitude", "angular") for sign in (1, -1)]  # type: ignore[arg-type]
    protocol = Protocol((1,), "relative", {"m": MATCHED})

    def run(trees: tuple[Tree, ...]) -> pd.DataFrame:
        probed = probe(lm, aligned(trees, lm), has_bos=True, blocks=(0, 1), poolings=("last",))
        engine = Engine(lm, protocol, kl=False)
        after = [frame for _, frame, _ in probed.after(engine, conditions)]
        return pd.concat([probed.clean(), *after], ignore_index=True)

    rows = run(english)
    pd.testing.assert_frame_equal(rows, run(english))
    pd.testing.assert_frame_equal(rows, run(english[::-1]))
    here = rows[(rows["block"] == 1) & (rows["target"] == "depth") & (rows["metric"] == "r2")]

    def moved(arm: str, name: str) -> float:
        """Change of squared error, averaged over sentences and draws."""
        of = here[here["representation"] == name].set_index("item")
        clean, after = of[of["after_arm"].isna()]["score"], of[of["after_arm"] == arm]["score"]
        return float((after - clean.reindex(after.index)).abs().mean())

    # at the perturbed block each arm leaves alone what it does not move
    assert moved("magnitude", "direction") < 1e-3 < moved("angular", "direction")
    assert moved("angular", "norm") < 1e-3 < moved("magnitude", "norm")
    draws = {s.n_draws for s in probe_scores(here) if s.named.get("after_arm")}
    assert draws == {2}  # the antithetic members
    assert set(rows["block"][rows["after_arm"].notna()]) == {1}


def test_the_control_reads_word_types(english: tuple[Tree, ...], lm: LanguageModel) -> None:
    """Embeddings tell word types apart, so random labels per type can be learned: selectivity is then small."""
    rows = probe(lm, aligned(english, lm), has_bos=True, blocks=(-1,), poolings=("last",)).clean()
    scores = {
        (s.named["representation"], s.named["metric"]): s for s in probe_scores(rows) if s.named["target"] == "upos"
    }
    accuracy, selectivity = (value(scores["direction", metric]) for metric in ("accuracy", "selectivity"))
    assert accuracy - selectivity > value(scores["norm", "accuracy"]) - value(scores["norm", "selectivity"]) + 10


def test_bad_treebanks(english: tuple[Tree, ...], lm: LanguageModel) -> None:
    def refused(trees: tuple[Tree, ...], message: str) -> None:
        with pytest.raises(UsageError, match=message):
            probe(lm, aligned(trees, lm), has_bos=True)

    refused(english[:40], "40 sentences are too few for probes")
    same = tuple(replace(t, words=tuple(replace(w, upos="NOUN") for w in t.words)) for t in english)
    refused(same, "the words have one value of upos: only 'NOUN'")
    untagged = tuple(replace(t, words=tuple(replace(w, upos=None) for w in t.words)) for t in english)
    refused(untagged, "one value of upos: none")
    flat = tuple(replace(t, words=tuple(replace(w, depth=0) for w in t.words)) for t in english)
    refused(flat, "one value of depth: only 0.0")
    one_word = tuple(
        replace(t, words=(replace(t.words[0], upos=f"T{i}", head=0, depth=0),)) for i, t in enumerate(english)
    )
    refused(one_word, "36 words to train on, fewer than the 60 values of upos")
    with pytest.raises(UsageError, match=r"no such blocks to probe: \(0, 3\)"):
        probe(lm, aligned(english, lm), has_bos=True, blocks=(0, 3))


def test_a_sentence_longer_than_the_window_is_counted(english: tuple[Tree, ...], lm: LanguageModel) -> None:
    word = replace(english[0].words[0], span=(0, 3))
    long = replace(english[0], text="cat " * 200, words=(word,), item="long", cluster="long")
    trees = aligned((*english, long), lm)
    assert trees.skipped == {"longer than the model's window of 128 tokens": 1}
    assert trees.unaligned == 0
    assert probe(lm, trees, has_bos=True, blocks=(0,), poolings=("last",)).counts["sentences"] == 60


def test_threads_and_the_disk_change_nothing(english: tuple[Tree, ...], lm: LanguageModel) -> None:
    def run(threads: int, memory: int) -> pd.DataFrame:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            trees = aligned(english, lm)
            return probe(lm, trees, has_bos=True, blocks=(1,), poolings=("last",), memory=memory).clean()
        finally:
            torch.set_num_threads(before)

    rows = run(1, 2**30)
    pd.testing.assert_frame_equal(rows, run(1, 0))
    # the model's own products may differ in the last bit with the threads
    pd.testing.assert_frame_equal(rows, run(3, 2**30), rtol=1e-3, atol=1e-3)
