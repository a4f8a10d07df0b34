"""Draws are a pure function of their key."""

import random
from collections.abc import Callable
from collections.abc import Sequence as Many

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from polarlens.errors import UsageError
from polarlens.perturbation import (
    ARMS,
    MATCHED,
    NOTEBOOK,
    PAPER,
    Arm,
    Displacement,
    PerArm,
    Policy,
    Sequence,
    Stream,
    align,
    coins,
    displace,
    gaussian,
    perturb,
)

WIDTH = 48
BY_LENGTH = MATCHED.with_levels(across_items="by-length")
INDEPENDENT = MATCHED.with_levels(across_members="independent")


def text(item: str, n: int) -> Sequence:
    return Sequence(item, None, n)


def pair(item: str, good: Many[int], bad: Many[int]) -> list[Sequence]:
    slots = align(good, bad)
    return [Sequence(item, member, len(ids), slots[member]) for member, ids in enumerate((good, bad))]


def draw(
    *sequences: Sequence, policy: Policy = MATCHED, arm: Arm = "angular", seed: int = 0, layer: int = 8
) -> list[np.ndarray]:
    drawn = gaussian(policy, arm, seed, layer, sequences, WIDTH)
    return [row[: s.n_tokens] for row, s in zip(drawn, sequences, strict=True)]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def unrelated(a: np.ndarray, b: np.ndarray) -> bool:
    """No correlation: within five standard deviations of 0 for this many numbers."""
    return a.shape == b.shape and abs(cosine(a, b)) < 5 / np.sqrt(a.size)


def test_moments_and_distribution() -> None:
    values = gaussian(MATCHED, "angular", 1, 4, [text("a", 200), text("b", 200)], 128).ravel().astype(np.float64)
    assert stats.kstest(values, "norm").pvalue > 1e-3
    lagged = [abs(np.corrcoef(values[:-k], values[k:])[0, 1]) * np.sqrt(values.size) for k in (1, 2, 128)]
    assert max(lagged) < 4


def test_golden_values() -> None:
    """A change of NumPy's streams or of the keys changes every stored result: it must be noticed."""
    golden = [text("0123456789abcdef", 5)]
    drawn = gaussian(MATCHED, "angular", 0, 8, golden, 4)[0]
    assert drawn.dtype == np.float32
    assert drawn[0] == pytest.approx([-0.4144776165, 1.7341399193, -1.2761105299, 0.1767763197], rel=1e-6)
    assert drawn[4] == pytest.approx([-0.2902088761, 0.7949033380, 0.8104211688, 1.2788010836], rel=1e-6)
    shared = gaussian(NOTEBOOK, "angular", 3, 8, golden, 2)[0]
    assert shared[4] == pytest.approx([0.0236468017, 1.9223406315], rel=1e-6)
    signs = coins(MATCHED, "magnitude", 0, 8, [text("0123456789abcdef", 70)])[0]
    assert signs.dtype == np.int8
    assert "".join("+" if s > 0 else "-" for s in signs) == (
        "++++++++++-+++-++-++----+++----+-+-+-++-+++-++++--+----+-++---+--++---"
    )


def test_batch_composition_order_and_padding_do_not_matter() -> None:
    sequences = [text("a", 7), *pair("p", [5, 1, 2, 3], [5, 1, 9, 9, 3]), text("b", 12), text("a", 7)]
    alone = [draw(s)[0] for s in sequences]
    signs = [coins(MATCHED, "magnitude", 0, 8, [s])[0] for s in sequences]
    for order in ([0, 1, 2, 3, 4], [3, 2, 1, 0], [4, 2]):
        batch = [sequences[i] for i in order]
        for length in (None, 12, 40):
            drawn = gaussian(MATCHED, "angular", 0, 8, batch, WIDTH, length)
            flipped = coins(MATCHED, "magnitude", 0, 8, batch, length)
            assert drawn.shape[:2] == flipped.shape == (len(order), length or 12 if 3 in order else length or 7)
            for row, i in enumerate(order):
                n = sequences[i].n_tokens
                assert np.array_equal(drawn[row, :n], alone[i])
                assert np.array_equal(flipped[row, :n], signs[i])
                assert not drawn[row, n:].any()
                assert not flipped[row, n:].any()


def test_a_longer_sequence_begins_with_the_shorter_ones_draws() -> None:
    long, long_signs = draw(text("a", 200))[0], coins(MATCHED, "magnitude", 0, 8, [text("a", 200)])[0]
    for n in (1, 2, 63, 64, 65, 199):
        assert np.array_equal(draw(text("a", n))[0], long[:n])
        assert np.array_equal(coins(MATCHED, "magnitude", 0, 8, [text("a", n)])[0], long_signs[:n])


def test_every_part_of_the_key_changes_the_draw() -> None:
    good, bad = pair("p", range(32), range(32))
    base = draw(text("a", 32))[0]
    others = {
        "seed": draw(text("a", 32), seed=1)[0],
        "negative seed": draw(text("a", 32), seed=-1)[0],
        "item": draw(text("a-1", 32))[0],
        "layer": draw(text("a", 32), layer=9)[0],
        "arm": draw(text("a", 32), arm="magnitude")[0],
        "good": draw(good)[0],
        "good, independent": draw(good, policy=INDEPENDENT)[0],
        "bad, independent": draw(bad, policy=INDEPENDENT)[0],
        "shared": draw(text("a", 32), policy=MATCHED.with_levels(across_layers="shared"))[0],
        "by length": draw(text("a", 32), policy=BY_LENGTH)[0],
    }
    everything = {"base": base, **others}
    for one in everything:
        for two in everything:
            if one < two:
                assert unrelated(everything[one], everything[two]), (one, two)
    assert unrelated(base[:-1], base[1:])  # tokens of one sequence


def test_signs_of_different_keys_are_unrelated() -> None:
    def signs(item: str = "a", seed: int = 0, layer: int = 8) -> np.ndarray:
        row: np.ndarray = coins(MATCHED, "magnitude", seed, layer, [text(item, 4096)])[0]
        return row

    for other in (signs("b"), signs(seed=1), signs(layer=9), np.roll(signs(), 1)):
        assert unrelated(signs(), other)


def test_coins_are_fair() -> None:
    along = coins(MATCHED, "magnitude", 0, 0, [text("a", 100_000)])[0]
    assert set(np.unique(along)) == {-1, 1}
    assert stats.binomtest(int((along > 0).sum()), along.size).pvalue > 1e-3
    runs = int((along[1:] != along[:-1]).sum())
    assert stats.binomtest(runs, along.size - 1).pvalue > 1e-3
    first = coins(MATCHED, "magnitude", 0, 0, [text(str(i), 64) for i in range(4000)])
    for token in (0, 1, 63):
        assert stats.binomtest(int((first[:, token] > 0).sum()), 4000).pvalue > 1e-3


@pytest.mark.parametrize("arm", ARMS)
def test_across_layers(arm: Arm) -> None:
    shared = MATCHED.with_levels(across_layers="shared")
    assert np.array_equal(
        draw(text("a", 9), policy=shared, arm=arm, layer=1)[0], draw(text("a", 9), policy=shared, arm=arm, layer=2)[0]
    )
    assert np.array_equal(coins(shared, arm, 0, 1, [text("a", 99)]), coins(shared, arm, 0, 2, [text("a", 99)]))
    assert unrelated(draw(text("a", 9), arm=arm, layer=1)[0], draw(text("a", 9), arm=arm, layer=2)[0])


def test_across_items_by_length() -> None:
    a, b, longer = draw(text("a", 9), text("b", 9), text("c", 10), policy=BY_LENGTH)
    assert np.array_equal(a, b)
    assert unrelated(a, longer[:9])  # another length, another key: not even a common prefix
    assert unrelated(draw(text("a", 9))[0], draw(text("b", 9))[0])


def test_members_by_length_share_everything_or_nothing() -> None:
    equal = pair("p", [1, 2, 3, 4, 5, 6], [1, 7, 8, 4, 5, 6])
    unequal = pair("p", [1, 2, 3, 4, 5, 6], [1, 7, 4, 5, 6])
    good, bad = draw(*equal, policy=BY_LENGTH)
    assert np.array_equal(good, bad)
    good, bad = draw(*unequal, policy=BY_LENGTH)
    assert unrelated(good[:1], bad[:1])
    assert unrelated(good[-3:], bad[-3:])
    assert np.array_equal(bad, draw(text("another", 5), policy=BY_LENGTH)[0])  # whatever is aligned with what
    alone = BY_LENGTH.with_levels(across_members="independent")
    good, bad = draw(*equal, policy=alone)
    assert unrelated(good, bad)


def test_levels_may_differ_by_arm() -> None:
    mixed = MATCHED.with_levels(across_layers=PerArm(magnitude="fresh", angular="shared"))

    def at(layer: int, arm: Arm) -> np.ndarray:
        return draw(text("a", 9), policy=mixed, arm=arm, layer=layer)[0]

    assert np.array_equal(at(1, "angular"), at(2, "angular"))
    assert unrelated(at(1, "magnitude"), at(2, "magnitude"))


def test_texts_draw_alike_under_both_pair_policies() -> None:
    assert np.array_equal(draw(text("a", 9))[0], draw(text("a", 9), policy=INDEPENDENT)[0])


def test_common_noise_follows_the_alignment() -> None:
    #            prefix  middle     suffix
    good = [1, 2, 10, 11, 12, 13, 3, 4, 5]
    bad = [1, 2, 20, 21, 3, 4, 5]
    for one, two in ((good, bad), (bad, good)):
        long, short = sorted(draw(*pair("p", one, two)), key=len, reverse=True)
        assert np.array_equal(long[[0, 1, 2, 3, 6, 7, 8]], short)
        for alone in (4, 5):
            assert all(unrelated(long[alone], token) for token in short)
    signs = coins(MATCHED, "magnitude", 0, 8, pair("p", good, bad))
    assert np.array_equal(signs[0, [0, 1, 2, 3, 6, 7, 8]], signs[1, :7])


def slow_align(good: list[int], bad: list[int]) -> set[tuple[int, int]]:
    """Aligned positions from the definition, token by token."""
    shorter = min(len(good), len(bad))
    prefix = 0
    while prefix < shorter and good[prefix] == bad[prefix]:
        prefix += 1
    suffix = 0
    while suffix < shorter - prefix and good[-1 - suffix] == bad[-1 - suffix]:
        suffix += 1
    aligned = {(i, i) for i in range(prefix)}
    aligned |= {(len(good) - 1 - k, len(bad) - 1 - k) for k in range(suffix)}
    middle = min(len(good), len(bad)) - prefix - suffix
    return aligned | {(prefix + j, prefix + j) for j in range(middle)}


tokens = st.lists(st.integers(0, 2), max_size=9)


@settings(deadline=None, max_examples=500, derandomize=True)
@given(tokens, tokens)
def test_align_follows_its_definition(good: list[int], bad: list[int]) -> None:
    a, b = align(good, bad)
    assert (len(a), len(b)) == (len(good), len(bad))
    assert len(set(a.tolist())) == len(a)
    assert len(set(b.tolist())) == len(b)
    shared = {(i, j) for i, x in enumerate(a.tolist()) for j, y in enumerate(b.tolist()) if x == y}
    assert shared == slow_align(good, bad)


def test_align_worked_examples() -> None:
    a, b = align([1, 2, 3], [1, 2, 3])
    assert a.tolist() == b.tolist() == [0, 1, 2]
    # A repeated token must not be counted in the prefix and in the suffix.
    a, b = align([1, 1], [1, 1, 1])
    assert (a.tolist(), b.tolist()) == ([0, 1], [0, 1, 2])
    a, b = align([7, 8, 9], [7, 5, 6, 9])
    assert (a.tolist(), b.tolist()) == ([0, 1, 3], [0, 1, 2, 3])


@pytest.mark.parametrize("pattern", [[(0, 9)], [(0, 5), (5, 1), (6, 3)], [(3, 2), (0, 4), (4, 5)], [(70, 10), (2, 1)]])
def test_stream_equals_the_slice_of_the_full_draw(pattern: list[tuple[int, int]]) -> None:
    full = draw(text("0", 90), seed=2, layer=3)[0]
    signs = coins(MATCHED, "magnitude", 2, 3, [text("0", 90)])[0]
    turning = Stream(MATCHED, "angular", 2, 3, "0", WIDTH)
    growing = Stream(MATCHED, "magnitude", 2, 3, "0", WIDTH)
    for start, n in pattern:
        assert np.array_equal(turning.gaussian(start, n), full[start : start + n])
        assert np.array_equal(growing.coins(start, n), signs[start : start + n])


def test_stream_of_no_tokens() -> None:
    stream = Stream(MATCHED, "angular", 0, 0, "0", 4)
    first = stream.gaussian(0, 2)
    assert stream.gaussian(2, 0).shape == (0, 4)
    assert np.array_equal(stream.gaussian(0, 2), first)
    assert stream.coins(5, 0).shape == (0,)


def test_stream_by_length_is_refused() -> None:
    with pytest.raises(UsageError, match="grows"):
        Stream(BY_LENGTH, "angular", 0, 0, "0", 4)


def test_empty_sequences_and_batches() -> None:
    assert gaussian(MATCHED, "angular", 0, 0, [], 4).shape == (0, 0, 4)
    assert coins(MATCHED, "magnitude", 0, 0, [text("a", 0)], 3).tolist() == [[0, 0, 0]]


def global_states() -> tuple[object, object, object]:
    return random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002


@pytest.mark.parametrize(
    "act",
    [
        lambda: gaussian(PAPER, "angular", 0, 0, [text("a", 5)], 4),
        lambda: coins(PAPER, "magnitude", 0, 0, [text("a", 5)]),
        lambda: Stream(MATCHED, "angular", 0, 0, "0", 4).gaussian(3, 2),
        lambda: perturb(torch.ones(3, 4), arm="angular", delta=0.1),
        lambda: displace(
            torch.ones(1, 2, 4),
            arm="angular",
            policy=NOTEBOOK,
            draw=torch.arange(8.0).view(1, 2, 4),
            delta=torch.full((1, 2), 0.1, dtype=torch.float64),
        ),
    ],
)
def test_global_random_states_are_neither_read_nor_written(act: Callable[[], object]) -> None:
    before = global_states()
    first = act()
    after = global_states()
    assert before[0] == after[0]
    assert all(np.array_equal(a, b) for a, b in zip(before[1], after[1], strict=True))  # type: ignore[call-overload]
    assert torch.equal(before[2], after[2])  # type: ignore[arg-type]
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    second = act()
    results = [torch.as_tensor(x.state if isinstance(x, Displacement) else x) for x in (first, second)]
    assert torch.equal(*results)
