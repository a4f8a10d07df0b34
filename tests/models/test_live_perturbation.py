"""`LanguageModel.perturbed`: every token moves by its distance, padding never, a cache changes nothing, hooks go."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polarlens.errors import NumericalError, UsageError
from polarlens.models import ATTENTION, PRE_MLP_NORM, LanguageModel
from polarlens.perturbation import MATCHED, NOTEBOOK, Sequence, coins, gaussian
from tiny import FAMILIES, tiny

SHORT, LONG = [5, 9, 11, 40, 7], [6, 200, 31, 12, 13, 30, 41, 8]
LAYER = 1


def model(family: str, **overrides: Any) -> LanguageModel:
    return LanguageModel(tiny(family, **overrides), name=family)


def batch(rows: list[list[int]], side: str) -> tuple[Tensor, Tensor]:
    length = max(map(len, rows))
    pads = [[0] * (length - len(row)) for row in rows]
    ids = [pad + row if side == "left" else row + pad for pad, row in zip(pads, rows, strict=True)]
    mask = [[0] * len(pad) + [1] * len(row) if side == "left" else [1] * len(row) + [0] * len(pad)
            for pad, row in zip(pads, rows, strict=True)]  # fmt: skip
    return torch.tensor(ids), torch.tensor(mask)


def positions(mask: Tensor) -> Tensor:
    return (mask.cumsum(-1) - 1).clamp_min(0)


@contextmanager
def watched(lm: LanguageModel, layer: int) -> Iterator[list[Any]]:
    """Outputs of a block as the next one gets them: this hook comes after those of the perturbation."""
    seen: list[Any] = []
    handle = lm.blocks[layer].register_forward_hook(lambda _, __, out: seen.append(out))
    try:
        yield seen
    finally:
        handle.remove()


def cached(lm: LanguageModel, cache: Any) -> dict[str, Any]:
    """Arguments for a pass that goes on from a cache; its name is changing in transformers."""
    name = "cache" if "cache" in inspect.signature(lm.hf.forward).parameters else "past_key_values"
    return {name: cache, "use_cache": True}


def states(lm: LanguageModel, ids: Tensor, mask: Tensor, **options: Any) -> Tensor:
    """The output of block LAYER (B, T, d), perturbed there if options are given."""
    with torch.no_grad():
        if not options:
            with watched(lm, LAYER) as seen:
                lm.hf(input_ids=ids, attention_mask=mask, use_cache=False)
        else:
            with lm.perturbed([LAYER], **options), watched(lm, LAYER) as seen:
                lm.hf(input_ids=ids, attention_mask=mask, use_cache=False)
    assert isinstance(seen[0], tuple) == lm.anatomy.returns_tuple[LAYER]
    return seen[0][0] if isinstance(seen[0], tuple) else seen[0]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("arm", ["magnitude", "angular"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_real_token_moves_by_its_distance(family: str, arm: str, side: str) -> None:
    lm = model(family)
    ids, mask = batch([SHORT, LONG], side)
    clean, moved = states(lm, ids, mask), states(lm, ids, mask, arm=arm, delta=0.2)
    real = mask.bool()
    ratio = (moved - clean).norm(dim=-1) / clean.norm(dim=-1)
    assert torch.allclose(ratio[real], torch.tensor(0.2), rtol=1e-5)
    assert torch.equal(moved[~real], clean[~real])
    length = moved.norm(dim=-1) / clean.norm(dim=-1)
    if arm == "angular":
        assert torch.allclose(length[real], torch.tensor(1.0), rtol=1e-5)
    else:
        assert torch.allclose((length[real] - 1).abs(), torch.tensor(0.2), rtol=1e-5)


@pytest.mark.parametrize("arm", ["magnitude", "angular"])
def test_absolute_distances(arm: str) -> None:
    lm = model("gpt2")
    ids, mask = batch([SHORT, LONG], "right")
    clean, moved = states(lm, ids, mask), states(lm, ids, mask, arm=arm, delta=0.7, delta_mode="absolute")
    assert torch.allclose((moved - clean).norm(dim=-1)[mask.bool()], torch.tensor(0.7), rtol=1e-5)


def test_draws_are_those_of_the_row_and_the_token() -> None:
    lm = model("llama")
    ids, mask = batch([SHORT, LONG], "left")
    clean = states(lm, ids, mask)
    moved = states(lm, ids, mask, arm="magnitude", delta=0.2, seed=3)
    rows = [Sequence(str(row), None, n) for row, n in enumerate((len(SHORT), len(LONG)))]
    signs = torch.from_numpy(coins(MATCHED, "magnitude", 3, LAYER, rows))
    grew = (moved.norm(dim=-1) > clean.norm(dim=-1)).int() * 2 - 1
    assert torch.equal(grew[0, mask[0].bool()], signs[0, : len(SHORT)].int())
    assert torch.equal(grew[1], signs[1].int())
    turned = states(lm, ids, mask, arm="angular", delta=0.2, seed=3) - clean
    drawn = torch.from_numpy(gaussian(MATCHED, "angular", 3, LAYER, rows, lm.width))
    u = clean[1] / clean[1].norm(dim=-1, keepdim=True)
    v = drawn[1] - (drawn[1] * u).sum(-1, keepdim=True) * u
    assert torch.allclose(torch.cosine_similarity(turned[1] - (turned[1] * u).sum(-1, keepdim=True) * u, v, dim=-1),
                          torch.tensor(1.0), atol=1e-4)  # fmt: skip


# Padding must not change what happens to a row: per-token states alone and in a batch (learned positions made right).
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("arm", ["magnitude", "angular"])
@pytest.mark.parametrize("family", ["gpt2", "gpt_neo", "llama", "opt", "bloom", "falcon-7b", "gemma3", "mixtral"])
def test_a_row_alone_is_the_row_in_a_batch(family: str, arm: str, side: str) -> None:
    lm = model(family)
    ids, mask = batch([SHORT, LONG], side)
    alone, whole = batch([SHORT], side)

    def run(ids: Tensor, mask: Tensor) -> Tensor:
        takes_positions = family in {"gpt2", "gpt_neo"}
        options = {"position_ids": positions(mask)} if takes_positions else {}
        with torch.no_grad(), lm.perturbed([0, 2], arm, 0.2):
            return lm.hf(input_ids=ids, attention_mask=mask, use_cache=False, **options).logits

    assert torch.allclose(run(ids, mask)[0, mask[0].bool()], run(alone, whole)[0], atol=1e-4)


@pytest.mark.parametrize("where", ["all", "no-first", "no-sinks"])
@pytest.mark.parametrize("arm", ["magnitude", "angular"])
@pytest.mark.parametrize("family", ["gpt2", "llama", "opt", "bloom", "falcon-7b", "gemma2"])
def test_generation_with_a_cache_is_generation_without(family: str, arm: str, where: str) -> None:
    lm = model(family)
    ids, mask = batch([SHORT, LONG], "left")
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "output_logits": True,
               "return_dict_in_generate": True}  # fmt: skip

    def generate(use_cache: bool, delta: float = 0.3) -> tuple[Tensor, Tensor]:
        with lm.perturbed([0, 1], arm, delta, positions=where, seed=1):
            out = lm.hf.generate(input_ids=ids, attention_mask=mask, use_cache=use_cache, **options)
        return out.sequences, torch.stack(out.logits)

    with_cache, without = generate(True), generate(False)
    assert torch.equal(with_cache[0], without[0])
    assert torch.allclose(with_cache[1], without[1], atol=2e-3)
    clean = generate(True, delta=0.0)
    assert (clean[1][0] - with_cache[1][0]).abs().max() > 1e-2


def test_without_a_mask_the_cache_counts() -> None:
    lm = model("llama")
    ids = torch.tensor([LONG])
    with torch.no_grad(), lm.perturbed([0, 1], "angular", 0.3):
        whole = lm.hf(input_ids=ids, use_cache=False).logits
        first = lm.hf(input_ids=ids[:, :5], use_cache=True)
        rest = lm.hf(input_ids=ids[:, 5:], **cached(lm, first.past_key_values)).logits
    assert torch.allclose(rest, whole[:, 5:], atol=1e-4)


def test_no_first_leaves_the_first_real_token_clean() -> None:
    lm = model("llama")
    ids, mask = batch([SHORT, LONG], "left")
    clean = states(lm, ids, mask)
    moved = states(lm, ids, mask, arm="angular", delta=0.2, positions="no-first")
    changed = (moved != clean).any(-1)
    want = mask.bool().clone()
    want[0, len(LONG) - len(SHORT)] = want[1, 0] = False
    assert torch.equal(changed, want)


def sinking() -> LanguageModel:
    """A model in which token 99 has a norm far above all others."""
    hf = tiny("llama", tie_word_embeddings=False)
    with torch.no_grad():
        hf.model.embed_tokens.weight[99] *= 1000
    return LanguageModel(hf, name="sinks")


def test_no_sinks_leaves_sinks_clean_wherever_they_stand() -> None:
    lm = sinking()
    ids, mask = batch([[5, 9, 99, 11, 40], [99, 200, 31, 12, 13, 99, 41, 8]], "left")
    clean = states(lm, ids, mask)
    moved = states(lm, ids, mask, arm="angular", delta=0.2, positions="no-sinks")
    assert torch.equal((moved != clean).any(-1), mask.bool() & (ids != 99))
    assert torch.equal((states(lm, ids, mask, arm="angular", delta=0.2) != clean).any(-1), mask.bool())


def test_no_sinks_counts_the_tokens_in_the_cache() -> None:
    lm = sinking()
    ids = torch.tensor([[5, 9, 11, 40, 99, 12]])
    with torch.no_grad(), lm.perturbed([LAYER], "angular", 0.2, positions="no-sinks"), watched(lm, LAYER) as moved:
        past = lm.hf(input_ids=ids[:, :4], use_cache=True).past_key_values
        lm.hf(input_ids=ids[:, 4:5], **cached(lm, past))
        lm.hf(input_ids=ids[:, 5:], **cached(lm, past))
    with torch.no_grad(), lm.perturbed([LAYER], "angular", 0.2), watched(lm, LAYER) as all_moved:
        past = lm.hf(input_ids=ids[:, :4], use_cache=True).past_key_values
        lm.hf(input_ids=ids[:, 4:5], **cached(lm, past))
    # Alone in its pass, the sink is known by the norms of the tokens before it.
    assert not torch.equal(moved[1], all_moved[1])
    assert torch.equal(moved[0], all_moved[0])


# The MLP of a parallel block never sees the attention contribution; that of a sequential one does.
@pytest.mark.parametrize(("family", "changes"), [("gpt_neox", False), ("gpt_neox-sequential", True)])
def test_injected_attention_reaches_the_mlp_only_in_sequential_blocks(family: str, changes: bool) -> None:
    lm = model(family)
    block, ids = lm.anatomy.blocks[1], torch.tensor([LONG])
    clean: list[Tensor] = []
    source, norm = block.source(ATTENTION), block.source(PRE_MLP_NORM)
    handle = source.register_forward_hook(lambda _, __, out: clean.append(out[0].clone()))
    with torch.no_grad():
        lm.hf(ids)
    handle.remove()

    def mlp_reads(inject: bool) -> Tensor:
        seen: list[Tensor] = []
        handles = [norm.register_forward_pre_hook(lambda _, args: seen.append(args[0].clone()))]
        if inject:
            handles.append(source.register_forward_hook(lambda _, __, out: (clean[0], *out[1:])))
        with torch.no_grad(), lm.perturbed([0], "angular", 0.3):
            lm.hf(ids)
        for handle in handles:
            handle.remove()
        return seen[0]

    assert torch.equal(mlp_reads(False), mlp_reads(True)) != changes


def hooks(lm: LanguageModel) -> list[int]:
    return [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in lm.hf.modules()]


class Aborted(BaseException):
    """Like KeyboardInterrupt: not an Exception."""


@pytest.mark.parametrize("error", [ValueError, NumericalError, KeyboardInterrupt, Aborted])
def test_hooks_are_gone_whatever_happens(error: type[BaseException]) -> None:
    lm, ids = model("gpt2"), torch.tensor([LONG])
    before, clean = hooks(lm), lm.hf(ids).logits
    with pytest.raises(error), lm.perturbed([0, 1, 2], "angular", 0.2):
        raise error("stop")
    assert hooks(lm) == before
    assert torch.equal(lm.hf(ids).logits, clean)


def test_an_error_inside_the_pass() -> None:
    lm, ids = model("gpt2"), torch.tensor([LONG])
    before, clean = hooks(lm), lm.hf(ids).logits

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    handle = lm.blocks[2].register_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt), lm.perturbed([0, 1], "magnitude", 0.2):
        lm.hf(ids)
    handle.remove()
    with pytest.raises(IndexError), lm.perturbed([0, 1], "magnitude", 0.2):
        lm.hf(torch.tensor([[10**6]]))
    assert hooks(lm) == before
    assert torch.equal(lm.hf(ids).logits, clean)


def test_registration_that_fails_half_way(monkeypatch: pytest.MonkeyPatch) -> None:
    lm, ids = model("gpt2"), torch.tensor([LONG])
    before, clean = hooks(lm), lm.hf(ids).logits

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no more hooks")

    monkeypatch.setattr(lm.blocks[2], "register_forward_hook", fail)
    with pytest.raises(RuntimeError, match="no more hooks"), lm.perturbed([0, 1, 2], "angular", 0.2):
        pytest.fail("the context was entered")
    assert hooks(lm) == before
    assert torch.equal(lm.hf(ids).logits, clean)


def test_an_abandoned_generator_and_the_callers_own_hooks() -> None:
    lm, ids = model("gpt2"), torch.tensor([LONG])
    clean, own = lm.hf(ids).logits, []
    handle = lm.blocks[1].register_forward_hook(lambda *_: own.append(1))
    before = hooks(lm)

    def runs() -> Iterator[Tensor]:
        with lm.perturbed([1], "angular", 0.2):
            while True:
                yield lm.hf(ids).logits

    running = runs()
    assert not torch.equal(next(running), clean)
    running.close()
    assert hooks(lm) == before
    assert torch.equal(lm.hf(ids).logits, clean)
    assert len(own) == 2
    handle.remove()


def test_contexts_nest_and_delta_zero_is_the_clean_model() -> None:
    lm, ids = model("gpt2"), torch.tensor([LONG])
    clean = lm.hf(ids).logits
    with lm.perturbed([0], "angular", 0.0):
        assert torch.equal(lm.hf(ids).logits, clean)
    with lm.perturbed([0], "angular", 0.2):
        once = lm.hf(ids).logits
        with lm.perturbed([2], "magnitude", 0.2):
            assert not torch.equal(lm.hf(ids).logits, once)
        assert torch.equal(lm.hf(ids).logits, once)
    assert torch.equal(lm.hf(ids).logits, clean)


def test_the_random_state_is_not_touched() -> None:
    lm, ids = model("gpt2"), torch.tensor([LONG])
    before = torch.get_rng_state()
    with lm.perturbed([0], "angular", 0.2):
        lm.hf(ids)
    assert torch.equal(torch.get_rng_state(), before)


def test_infeasible_tokens_are_left_and_counted() -> None:
    lm, ids = model("gpt2"), torch.tensor([LONG])
    clean = states(lm, ids, torch.ones_like(ids))
    with pytest.warns(UserWarning, match=r"8 of 8 states were left unperturbed"):
        moved = states(lm, ids, torch.ones_like(ids), arm="magnitude", delta=1e4, delta_mode="absolute")
    assert torch.equal(moved, clean)


@pytest.mark.parametrize(
    "options",
    [
        {"layers": [3]},
        {"layers": [-1]},
        {"arm": "radial"},
        {"delta": 1.0},
        {"delta": -0.1},
        {"delta": float("nan")},
        {"delta_mode": "site"},
        {"positions": "some"},
        {"policy": MATCHED.with_levels(plane="data")},
        {"policy": NOTEBOOK},
    ],
)
def test_what_is_not_possible(options: dict[str, Any]) -> None:
    lm = model("gpt2")
    call: Callable[..., Any] = lm.perturbed
    with pytest.raises(UsageError), call(**({"layers": [0], "arm": "angular", "delta": 0.2} | options)):
        pytest.fail("the context was entered")


def test_a_mask_that_hides_which_tokens_are_real() -> None:
    lm, ids = model("llama"), torch.tensor([LONG])
    mask = torch.zeros(1, 1, len(LONG), len(LONG))
    with pytest.raises(UsageError, match="real tokens cannot be counted"), lm.perturbed([0], "angular", 0.2):
        lm.hf(input_ids=ids, attention_mask=mask)


def test_a_state_that_is_not_finite_is_named() -> None:
    lm, ids = model("gpt2"), torch.tensor([LONG])
    handle = lm.blocks[0].register_forward_hook(lambda _, __, out: out * float("inf"))
    with pytest.raises(NumericalError, match=r"gpt2, block 1.* not finite"), lm.perturbed([1], "angular", 0.2):
        lm.hf(ids)
    handle.remove()


def test_blocks_keep_their_modules() -> None:
    lm = model("gemma2")
    inside = list(lm.blocks)
    with lm.perturbed([0, 1], "angular", 0.2):
        assert all(isinstance(b, nn.Module) and b is same for b, same in zip(lm.blocks, inside, strict=True))


@pytest.mark.parametrize("layers", ["8-15", [0.5], [None]])
def test_layers_that_are_no_numbers_are_refused(layers: object) -> None:
    lm = LanguageModel(tiny("gpt2"))
    with pytest.raises(UsageError, match="no list of blocks"), lm.perturbed(layers, "angular", 0.1):  # type: ignore[arg-type]
        pass
