"""Hooks that always come off again, and the conventions of what modules take and return.

Hugging Face blocks return the hidden state itself or a tuple that starts with it, by family; sub-modules take it as the
first positional argument or by keyword.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn


def first_tensor(output: Any) -> Tensor | None:
    """The hidden state in what a module returns: the tensor, or the first element of a tuple; else None."""
    if isinstance(output, tuple):
        output = output[0] if output else None
    return output if isinstance(output, Tensor) else None


def with_first(output: Any, hidden: Tensor) -> Any:
    """`output` with its hidden state replaced: a tensor for a tensor, a tuple with its other elements for a tuple."""
    return (hidden, *output[1:]) if isinstance(output, tuple) else hidden


def first_input(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
    """The hidden state that a module is called with: the first positional argument, else the keyword."""
    if args and isinstance(args[0], Tensor):
        return args[0]
    named = kwargs.get("hidden_states")
    return named if isinstance(named, Tensor) else next((v for v in kwargs.values() if isinstance(v, Tensor)), None)


@contextmanager
def hooked(register: Iterable[Callable[[], Any]]) -> Iterator[None]:
    """Run each `register` (it adds one hook and returns its handle); remove the hooks on exit, whatever happens.

    Also when a registration itself fails half-way: the hooks added before it come off.
    """
    with ExitStack() as stack:
        for add in register:
            stack.callback(add().remove)
        yield


@dataclass(frozen=True)
class Call:
    """One call of a module: copies of the hidden state that went in and came out, and whether a tuple came out.

    Copies, because Falcon adds the attention result into the MLP's output in place; on the CPU, because the parts of a
    split model live on several devices.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    input: Tensor | None
    output: Tensor | None
    returns_tuple: bool


@contextmanager
def recorded(modules: Iterable[nn.Module], *, keep_arguments: bool = False) -> Iterator[dict[nn.Module, list[Call]]]:
    """Record every call of `modules` while the context is open: module -> its calls in order."""
    calls: dict[nn.Module, list[Call]] = {}
    pending: dict[nn.Module, list[Tensor | None]] = {}

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden = first_input(args, kwargs)
        pending.setdefault(module, []).append(None if hidden is None else hidden.detach().to("cpu", copy=True))

    def after(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        hidden = first_tensor(output)
        calls.setdefault(module, []).append(
            Call(
                args if keep_arguments else (),
                kwargs if keep_arguments else {},
                pending[module].pop(),
                None if hidden is None else hidden.detach().to("cpu", copy=True),
                isinstance(output, tuple),
            )
        )

    def registrations() -> Iterator[Callable[[], Any]]:
        for module in dict.fromkeys(modules):
            yield partial(module.register_forward_pre_hook, before, with_kwargs=True)
            yield partial(module.register_forward_hook, after, with_kwargs=True)

    with hooked(registrations()):
        yield calls
