"""The states of words at the probed blocks: one pass per batch, pooled at once, on disk past a budget."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Many
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polarlens.engine.batching import Batch, batches
from polarlens.engine.conditions import Condition
from polarlens.engine.engine import Engine
from polarlens.engine.outcome import Clean, Realised
from polarlens.engine.scoring import only_positions
from polarlens.errors import SiteError
from polarlens.models.hooks import first_input, first_tensor, hooked
from polarlens.models.sites import FINAL_NORM
from polarlens.probing.alignment import AlignedTree
from polarlens.probing.words import Array, BoolArray

if TYPE_CHECKING:
    from polarlens.models import LanguageModel

EMBEDDINGS = -1  # the "block" whose output the first block reads
POOLINGS = ("last", "mean")
MEMORY = 512 * 2**20  # bytes of states kept in memory


@dataclass(frozen=True)
class States:
    """Pooled states of N words, in the order of `words_of`.

    blocks: the probed blocks, ascending. states: pooling -> (blocks, N, d) float32. norms: pooling -> (N, L + 1)
    float64, the norm of the pooled state at every block, embeddings first.
    """

    blocks: tuple[int, ...]
    states: Mapping[str, npt.NDArray[np.float32]]
    norms: Mapping[str, Array]

    def at(self, block: int, pooling: str) -> Array:
        """(N, d) float64 states."""
        return self.states[pooling][self.blocks.index(block)].astype(np.float64)

    def profile(self, block: int, pooling: str) -> Array:
        """(N, block + 2) norms at the blocks up to this one, embeddings first."""
        return self.norms[pooling][:, : block + 2]


def default_blocks(n_layers: int) -> tuple[int, ...]:
    """The embeddings and five blocks i (L - 1) / 4, halves rounded up, so that the middle one is floor(L / 2)."""
    return tuple(sorted({EMBEDDINGS, *(int(i * (n_layers - 1) / 4 + 0.5) for i in range(5))}))


def clean_states(
    lm: "LanguageModel", trees: Many[AlignedTree], blocks: tuple[int, ...], poolings: Many[str] = POOLINGS,
    *, has_bos: bool, batch_tokens: int = 2048, memory: int = MEMORY,
) -> States:  # fmt: skip
    """The states of all aligned words in an unperturbed pass; at most `batch_tokens` padded tokens are run at once."""
    pool = _Pool(lm, trees, blocks, poolings, memory)
    for batch in batches([tree.encoded for tree in trees], batch_tokens, has_bos=has_bos):
        first = torch.zeros(1, dtype=torch.int64, device=lm.device)  # the head runs on one position
        ids, mask = batch.ids.to(lm.device), batch.mask.to(lm.device)
        with pool.reading(batch, EMBEDDINGS), only_positions(lm.head, first), torch.no_grad():
            lm.hf(input_ids=ids, attention_mask=mask, use_cache=False)
    return pool.result


def clean_passes(
    engine: Engine, trees: Many[AlignedTree], *, has_bos: bool, batch_tokens: int = 2048
) -> list[tuple[Batch, Clean]]:
    """What every perturbation of these sentences starts from: each batch, and its pass up to the perturbed blocks."""
    passes = []
    for batch in batches([tree.encoded for tree in trees], batch_tokens, has_bos=has_bos):
        one = replace(  # the head runs on one position, whatever it says
            batch, scored=torch.zeros(1, dtype=torch.int64), targets=batch.ids[0, :1], row_of=batch.ids[0, :1] * 0
        )
        passes.append((one, engine.clean(one)))
    return passes


def perturbed_states(
    engine: Engine, trees: Many[AlignedTree], condition: Condition, clean: States,
    passes: Many[tuple[Batch, Clean]], *, memory: int = MEMORY,
) -> tuple[States, list[Realised]]:  # fmt: skip
    """The states of the same words under a condition, at the probed blocks from the first perturbed one on.

    With it what each pass realised, batch by batch.

    clean: of the same trees; its norms stand for the blocks below, which the perturbation does not reach. passes: those
    of `clean_passes`. Raises SiteError when the last block is perturbed in a model whose final norm was not verified.
    """
    lm, layers = engine.lm, engine.protocol.layers
    if lm.n_layers - 1 in layers and not lm.anatomy.sites[FINAL_NORM].available:
        raise SiteError("the last block's output after a perturbation cannot be seen", where=lm.name)
    blocks = tuple(block for block in clean.blocks if block >= layers[0])
    pool = _Pool(lm, trees, blocks, tuple(clean.states), memory)
    for pooling, norms in pool.result.norms.items():
        norms[:, : layers[0] + 1] = clean.norms[pooling][:, : layers[0] + 1]
    realised = []
    for batch, cleaned in passes:
        with pool.reading(batch, layers[0]):
            # one condition is one stack, whatever the budget
            realised += [outcome.realised for _, outcome in engine.perturbed(batch, cleaned, [condition], tokens=1)]
    return pool.result, realised


def rows_of(states: States, chosen: BoolArray) -> States:
    """The states of the chosen words (N,) bool, in memory."""
    return States(
        states.blocks,
        {pooling: values[:, chosen] for pooling, values in states.states.items()},
        {pooling: values[chosen] for pooling, values in states.norms.items()},
    )


class _Pool:
    """Pools the states of each batch's words as the blocks hand them on, and keeps them."""

    def __init__(
        self, lm: "LanguageModel", trees: Many[AlignedTree], blocks: tuple[int, ...], poolings: Many[str], memory: int
    ) -> None:
        self.lm = lm
        self.words: dict[tuple[str, str], tuple[int, list[tuple[int, ...]]]] = {}
        n = 0
        for tree in trees:
            tokens = [word for word in tree.tokens if word]
            self.words[tree.tree.dataset, tree.tree.item] = (n, tokens)
            n += len(tokens)
        shape = (len(blocks), n, lm.width)
        size = 4 * int(np.prod(shape)) * len(poolings)
        self.result = States(
            blocks,
            {pooling: _empty(shape, on_disk=size > memory) for pooling in poolings},
            {pooling: np.full((n, lm.n_layers + 1), np.nan) for pooling in poolings},
        )

    @contextmanager
    def reading(self, batch: Batch, first: int) -> Iterator[None]:
        """While open, a forward pass over the batch leaves the states at `first` and later blocks in `result`.

        Read is what comes in where it goes next (the block above; the final norm), so after all edits of an output.
        """
        keep = self._keeper(batch)
        blocks, norm = self.lm.blocks, self.lm.anatomy.final_norm

        def before(block: int, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            keep(block, first_input(args, kwargs))

        def after(block: int, _: Any, __: Any, output: Any) -> None:
            keep(block, first_tensor(output))

        def registrations() -> Iterator[Callable[[], Any]]:
            last = self.lm.n_layers - 1
            for block in range(first, last):
                yield partial(blocks[block + 1].register_forward_pre_hook, partial(before, block), with_kwargs=True)
            if norm is not None and self.lm.anatomy.sites[FINAL_NORM].available:
                yield partial(norm.register_forward_pre_hook, partial(before, last), with_kwargs=True)
            else:
                yield partial(blocks[last].register_forward_hook, partial(after, last))

        with hooked(registrations()):
            yield

    def _keeper(self, batch: Batch) -> Callable[[int, Tensor | None], None]:
        """Where the batch's words are: in the flattened (B·T) states, and in `result`."""
        width = batch.shape[1]
        rows: list[int] = []
        tokens: list[int] = []
        owner: list[int] = []
        for row, encoded in enumerate(batch.items):
            start, words = self.words[encoded.item.dataset, encoded.item.item]
            for offset, word in enumerate(words):
                tokens += [row * width + token for token in word]
                owner += [len(rows)] * len(word)
                rows.append(start + offset)
        flat, of = torch.tensor(tokens), torch.tensor(owner)
        counts = torch.bincount(of)
        last = flat[counts.cumsum(0) - 1]
        place = {block: index for index, block in enumerate(self.result.blocks)}

        def keep(block: int, hidden: Tensor | None) -> None:
            assert hidden is not None, "blocks take and return the hidden state first"
            states = hidden.detach().reshape(-1, hidden.shape[-1])
            for pooling, norms in self.result.norms.items():
                if pooling == "last":
                    pooled = states[last.to(states.device)].double().cpu()
                else:
                    pooled = torch.zeros(len(rows), states.shape[1], dtype=torch.float64)
                    pooled.index_add_(0, of, states[flat.to(states.device)].double().cpu())
                    pooled /= counts[:, None]
                norms[rows, block + 1] = torch.linalg.vector_norm(pooled, dim=1).numpy()
                if block in place:
                    self.result.states[pooling][place[block], rows] = pooled.float().numpy()

        return keep


def _empty(shape: tuple[int, ...], *, on_disk: bool) -> npt.NDArray[np.float32]:
    if not on_disk or 0 in shape:
        return np.empty(shape, dtype=np.float32)
    with TemporaryFile() as file:  # unnamed: it goes with the array
        return np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
