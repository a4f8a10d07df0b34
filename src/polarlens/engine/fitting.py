"""Work on a batch in parts where the whole of it does not fit into memory."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

from polarlens.engine.batching import Batch, batches

T = TypeVar("T")


def fitting(batch: Batch, tokens: int, run: Callable[[Batch, int], T]) -> Iterator[tuple[Batch, T]]:
    """`run(batch, tokens)`; where that runs out of memory, batches of half the size with half the tokens at once.

    tokens: the padded tokens that `run` may run at once. Raises what `run` raises when it runs out of memory with one
    item and no more tokens than that item has.
    """
    size = batch.shape[0] * batch.shape[1]
    try:
        done = [run(batch, tokens)]
    except (RuntimeError, MemoryError) as error:
        if not _out_of_memory(error) or (len(batch.items) == 1 and tokens <= size):
            raise
        done = []
    if done:
        yield batch, done[0]
        return
    for part in batches(batch.items, max(1, size // 2), has_bos=batch.has_bos):
        yield from fitting(part, max(1, tokens // 2), run)


def _out_of_memory(error: Exception) -> bool:
    """Accelerators have an error of their own; the CPU's allocator only says so."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "allocate memory" in str(error)
