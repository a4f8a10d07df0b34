"""Starting a forward pass at a block: the blocks before it do nothing, it returns a cached state.

The model's own `forward` still runs with the ids repeated K times, so masks, positions, rotary code and per-layer
settings stay Hugging Face's. Only `forward` of block *instances* is overridden, and taken back on exit.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Many
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from polarlens.models.hooks import first_input, first_tensor, hooked, with_first

Edit = Callable[[Tensor], Tensor]


def hidden_of(output: Any) -> Tensor:
    """The hidden state in what a block returns."""
    hidden = first_tensor(output)
    assert hidden is not None, "blocks return a tensor, or a tuple that starts with one"
    return hidden


def detached(output: Any) -> Any:
    """A copy of what a block returned: cloned, since some blocks write into it; nothing reads a tuple's other parts."""
    hidden = hidden_of(output).clone()
    return (hidden, *(None,) * (len(output) - 1)) if isinstance(output, tuple) else hidden


@contextmanager
def captured(blocks: nn.ModuleList, layers: Many[int], keep: Callable[[int, Any], None]) -> Iterator[None]:
    """Call `keep(layer, output)` with the raw output of each block in `layers`, before any other hook sees it."""

    def register(layer: int) -> Callable[[], Any]:
        return lambda: blocks[layer].register_forward_hook(lambda _, __, output: keep(layer, output), prepend=True)

    with hooked(map(register, layers)):
        yield


@contextmanager
def edited(blocks: nn.ModuleList, edits: Mapping[int, Edit]) -> Iterator[None]:
    """Replace the output of each block in `edits` by the edit of it, after all other hooks."""

    def register(layer: int) -> Callable[[], Any]:
        edit = edits[layer]
        return lambda: blocks[layer].register_forward_hook(
            lambda _, __, output: with_first(output, edit(hidden_of(output)))
        )

    with hooked(map(register, edits)):
        yield


@contextmanager
def forward_replaced(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Let `module` compute `forward` instead of its own while the context is open; its hooks stay."""
    own = module.__dict__.get("forward")  # accelerate puts a forward on the instance
    module.forward = forward
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


@contextmanager
def started_at(blocks: nn.ModuleList, layer: int, output: Any) -> Iterator[None]:
    """Let block `layer` return `output` (a tensor, or a tuple where the family's blocks return one), skip those before.

    Blocks below `layer` hand their input through; nothing reads it.
    """

    def skip(*args: Any, **kwargs: Any) -> Any:
        hidden = first_input(args, kwargs)
        assert hidden is not None, "blocks take the hidden state first, or by name"
        return with_first(output, hidden)

    def resume(*_: Any, **__: Any) -> Any:
        return output

    with ExitStack() as stack:
        for below in range(layer):
            stack.enter_context(forward_replaced(blocks[below], skip))
        stack.enter_context(forward_replaced(blocks[layer], resume))
        yield
