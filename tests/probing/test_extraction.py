"""States against a forward pass of one sentence at a time with plain hooks, clean and perturbed."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from polarlens.data.read import read_trees
from polarlens.engine.conditions import Condition, Protocol
from polarlens.engine.engine import Engine
from polarlens.english import sentences, write_conllu
from polarlens.models import LanguageModel
from polarlens.models.hooks import first_tensor, with_first
from polarlens.perturbation import PAPER, coins, displace, gaussian, norms
from polarlens.probing.alignment import AlignedTree, align_trees
from polarlens.probing.extraction import States, clean_passes, clean_states, default_blocks, perturbed_states, rows_of
from tiny import tiny, tiny_tokenizer

BLOCKS = (-1, 0, 2)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> tuple[AlignedTree, ...]:
    path: Path = tmp_path_factory.mktemp("trees") / "a.conllu"
    write_conllu(path, sentences(2, 9))
    return align_trees(read_trees([str(path)]).items, tiny_tokenizer(), 0, window=128).items


def one_by_one(
    lm: LanguageModel, trees: Sequence[AlignedTree], condition: Condition | None = None, layers: Sequence[int] = ()
):  # type: ignore[no-untyped-def]
    """pooling -> block -> (N, d): every sentence alone, unpadded, all blocks hooked."""
    out: dict[str, dict[int, list[np.ndarray]]] = {p: {b: [] for b in range(-1, lm.n_layers)} for p in ("last", "mean")}
    for tree in trees:
        seen: dict[int, torch.Tensor] = {}

        def hook(layer, module, args, output, tree=tree, seen=seen):  # type: ignore[no-untyped-def]
            hidden = first_tensor(output)
            if condition is not None and layer in layers:
                draw = (
                    coins(PAPER, "magnitude", condition.seed, layer, tree.encoded.noise)
                    if condition.arm == "magnitude"
                    else gaussian(PAPER, "angular", condition.seed, layer, tree.encoded.noise, lm.width)
                )
                moved = displace(
                    hidden,
                    arm=condition.arm,
                    policy=PAPER,
                    draw=torch.from_numpy(draw),
                    delta=condition.delta * norms(hidden),
                )
                hidden = moved.state
            seen[layer] = hidden[0].double()
            return with_first(output, hidden)

        handles = [
            block.register_forward_hook(lambda m, a, o, n=n, hook=hook: hook(n, m, a, o))
            for n, block in enumerate(lm.blocks)
        ]
        handles.append(
            lm.blocks[0].register_forward_pre_hook(lambda m, a, seen=seen: seen.update({-1: a[0][0].double()}))
        )
        with torch.no_grad():
            lm.hf(input_ids=torch.tensor([tree.encoded.sequences[0]]), use_cache=False)
        for handle in handles:
            handle.remove()
        for tokens in tree.tokens:
            for block, states in seen.items():
                out["last"][block].append(states[tokens[-1]].numpy())
                out["mean"][block].append(states[list(tokens)].mean(0).numpy())
    return {p: {b: np.array(rows) for b, rows in by.items() if rows} for p, by in out.items()}


@pytest.mark.parametrize("family", ["llama", "gpt2", "falcon-7b", "opt-post_norm", "gemma2", "bloom"])
def test_clean_states(family: str, trees: tuple[AlignedTree, ...]) -> None:
    lm = LanguageModel(tiny(family), tiny_tokenizer())
    found, wanted = clean_states(lm, trees, BLOCKS, has_bos=True, batch_tokens=200), one_by_one(lm, trees)
    for pooling in ("last", "mean"):
        for block in BLOCKS:
            np.testing.assert_allclose(found.at(block, pooling), wanted[pooling][block], rtol=1e-4, atol=2e-5)
        sizes = np.stack([np.linalg.norm(wanted[pooling][b], axis=1) for b in range(-1, lm.n_layers)], axis=1)
        np.testing.assert_allclose(found.norms[pooling], sizes, rtol=1e-5)
        assert found.profile(0, pooling).shape == (len(sizes), 2)


def test_memory_and_batches_change_nothing(trees: tuple[AlignedTree, ...]) -> None:
    lm = LanguageModel(tiny(), tiny_tokenizer())
    found = [
        clean_states(lm, trees, BLOCKS, has_bos=True, batch_tokens=tokens, memory=memory)
        for tokens, memory in ((2048, 2**30), (2048, 0), (30, 2**30))
    ]
    assert [isinstance(f.states["last"], np.memmap) for f in found] == [False, True, False]
    np.testing.assert_array_equal(found[0].states["mean"], found[1].states["mean"])
    np.testing.assert_allclose(found[0].states["mean"], found[2].states["mean"], rtol=1e-4, atol=1e-5)
    chosen = np.arange(found[0].norms["last"].shape[0]) % 3 == 0
    assert rows_of(found[1], chosen).states["last"].shape[1] == chosen.sum()


@pytest.mark.parametrize("arm", ["magnitude", "angular"])
@pytest.mark.parametrize("layers", [(1,), (0, 2)])
def test_perturbed_states(arm: str, layers: tuple[int, ...], trees: tuple[AlignedTree, ...]) -> None:
    lm = LanguageModel(tiny("llama"), tiny_tokenizer())
    clean = clean_states(lm, trees, (-1, 0, 1, 2), has_bos=True)
    condition = Condition("p", "all", arm, 0.3, 4, None)  # type: ignore[arg-type]
    engine = Engine(lm, Protocol(layers, "relative", {"p": PAPER}), kl=False)
    passes = clean_passes(engine, trees, has_bos=True, batch_tokens=150)
    found, realised = perturbed_states(engine, trees, condition, clean, passes)
    assert found.blocks == tuple(range(layers[0], 3))
    tokens = sum(len(ids) for tree in trees for ids in tree.encoded.sequences)
    assert sum(int(one.first_count.sum()) for one in realised) == tokens
    for one in realised:
        ratios = {layer: got / asked for layer, (got, asked) in one.by_layer.items()}
        assert ratios == pytest.approx(dict.fromkeys(layers, 1), rel=1e-5)
    wanted = one_by_one(lm, trees, condition, layers)
    for pooling in ("last", "mean"):
        for block in found.blocks:
            np.testing.assert_allclose(found.at(block, pooling), wanted[pooling][block], rtol=1e-4, atol=2e-5)
        below = layers[0] + 1
        np.testing.assert_array_equal(found.norms[pooling][:, :below], clean.norms[pooling][:, :below])
        assert np.isfinite(found.norms[pooling]).all()
    if layers == (1,):
        check_arm(arm, clean, found)


def check_arm(arm: str, clean: States, found: States) -> None:
    """At the perturbed block itself one arm leaves the direction alone, the other the norm."""
    before, after = clean.at(1, "last"), found.at(1, "last")
    ratio = np.linalg.norm(after, axis=1) / np.linalg.norm(before, axis=1)
    cosine = (before * after).sum(1) / np.linalg.norm(after, axis=1) / np.linalg.norm(before, axis=1)
    if arm == "magnitude":
        np.testing.assert_allclose(cosine, 1, atol=1e-6)
        np.testing.assert_allclose(np.abs(ratio - 1), 0.3, atol=1e-5)
    else:
        np.testing.assert_allclose(ratio, 1, atol=1e-5)
        np.testing.assert_allclose(cosine, 1 - 0.3**2 / 2, atol=1e-5)


def test_default_blocks() -> None:
    assert default_blocks(30) == (-1, 0, 7, 15, 22, 29)
    assert default_blocks(24) == (-1, 0, 6, 12, 17, 23)
    assert default_blocks(2) == (-1, 0, 1)
    assert default_blocks(1) == (-1, 0)
    for n in range(1, 60):
        assert n // 2 in default_blocks(n)  # where claims are shown
