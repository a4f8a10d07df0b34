"""Perturbing a live model through plain forward hooks, in single passes and in generation with a cache."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from polarlens.errors import NumericalError, UsageError
from polarlens.models.hooks import first_tensor, hooked, with_first
from polarlens.perturbation import ARMS, POSITIONS, Arm, Policy, Stream, displace, norms

if TYPE_CHECKING:
    from polarlens.models.language_model import LanguageModel

SINK = 10.0  # a sink's norm exceeds this many medians of its row


@dataclass
class _Pass:
    """The forward pass under way: which of its tokens are real (B, T), and the index of each row's first one."""

    real: np.ndarray
    start: np.ndarray
    fresh: bool


@dataclass
class _Perturbation:
    """The state of one `perturbed` context: noise streams per (layer, row), and norms seen so far per (layer, row)."""

    model: str
    width: int
    arm: Arm
    delta: float
    relative: bool
    seed: int
    positions: str
    policy: Policy
    current: _Pass | None = None
    streams: dict[tuple[int, int], Stream] = field(default_factory=dict)
    seen: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    asked: int = 0
    left: int = 0

    def begin(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before the model runs: real tokens and their indices, from the attention mask, else from the cache."""
        tokens = args[0] if args else kwargs.get("input_ids")
        if tokens is None:
            tokens = kwargs["inputs_embeds"]
        rows, length = tokens.shape[:2]
        mask = args[1] if len(args) > 1 and isinstance(args[1], Tensor) else kwargs.get("attention_mask")
        if mask is None:
            cache = kwargs.get("past_key_values", kwargs.get("cache"))  # the name is changing in transformers
            past = int(cache.get_seq_length()) if cache is not None else 0
            real, start = np.ones((rows, length), dtype=bool), np.full(rows, past)
        elif mask.dim() == 2 and mask.shape[1] >= length:
            known = mask.detach().cpu().numpy() != 0
            past = known.shape[1] - length
            real, start = known[:, past:], known[:, :past].sum(1)
        else:
            raise UsageError(
                f"the attention mask has shape {tuple(mask.shape)}, so the real tokens cannot be counted",
                where="LanguageModel.perturbed",
                fix="Pass a mask of shape (batch, tokens), or none.",
            )
        self.current = _Pass(real, start, fresh=past == 0)

    def end(self, *_: Any) -> None:
        """After the model ran, or failed."""
        self.current = None

    def hook(self, layer: int) -> Callable[[Any, Any, Any], Any]:
        """A forward hook for block `layer`."""

        def displaced(_: Any, __: Any, output: Any) -> Any:
            hidden = first_tensor(output)
            if hidden is None or self.current is None:
                raise RuntimeError("the block ran outside a forward pass of its model")
            return with_first(output, self._moved(layer, hidden, self.current))

        return displaced

    def _moved(self, layer: int, hidden: Tensor, now: _Pass) -> Tensor:
        rows, length = hidden.shape[:2]
        size = norms(hidden)
        takes_part = torch.from_numpy(self._takes_part(layer, size.detach().cpu().double().numpy(), now)).to(
            hidden.device
        )
        delta = torch.where(takes_part, self.delta * size if self.relative else torch.full_like(size, self.delta), 0.0)
        shape = (rows, length) if self.arm == "magnitude" else (rows, length, self.width)
        draw = np.zeros(shape, dtype=np.int8 if self.arm == "magnitude" else np.float32)
        for row in range(rows):
            n = int(now.real[row].sum())
            stream = self.streams.get((layer, row))
            if stream is None:
                stream = Stream(self.policy, self.arm, self.seed, layer, str(row), self.width)
                self.streams[layer, row] = stream
            start = int(now.start[row])
            drawn = stream.coins(start, n) if self.arm == "magnitude" else stream.gaussian(start, n)
            draw[row, now.real[row]] = drawn
        try:
            if not bool(torch.isfinite(size[takes_part]).all()):
                raise NumericalError("the state to perturb is not finite", fix="Load the model in float32.")
            moved = displace(hidden, arm=self.arm, policy=self.policy, draw=torch.from_numpy(draw), delta=delta)
        except NumericalError as error:
            where = f"{self.model}, block {layer}" + (f", {error.where}" if error.where else "")
            raise NumericalError(error.what, where=where, fix=error.fix) from None
        self.asked += int((delta > 0).sum())
        self.left += int(moved.left.sum())
        return moved.state

    def _takes_part(self, layer: int, size: np.ndarray, now: _Pass) -> np.ndarray:
        """(B, T) bool: real tokens that `positions` selects."""
        chosen = now.real.copy()
        if self.positions == "no-first":
            index = now.start[:, None] + np.cumsum(now.real, axis=1) - 1
            chosen &= index > 0
        elif self.positions == "no-sinks":
            for row, real in enumerate(now.real):
                before = np.empty(0) if now.fresh else self.seen.get((layer, row), np.empty(0))
                self.seen[layer, row] = np.concatenate([before, size[row, real]])
                if real.any():
                    chosen[row] &= size[row] <= SINK * np.median(self.seen[layer, row])
        return chosen


@contextmanager
def perturbed(
    lm: "LanguageModel",
    layers: Sequence[int],
    arm: Arm,
    delta: float,
    delta_mode: str,
    seed: int,
    positions: str,
    policy: Policy,
) -> Iterator[None]:
    """See `LanguageModel.perturbed`."""
    if isinstance(layers, str) or not all(isinstance(layer, int) for layer in layers):
        raise UsageError(
            f"{layers!r} is no list of blocks", where="layers", fix="Give block numbers, as in [8, 9, 10]."
        )
    layers = sorted(set(layers))
    _validate(lm, layers, arm, delta, delta_mode, positions, policy)
    if delta == 0 or not layers:
        yield
        return
    state = _Perturbation(lm.name, lm.width, arm, delta, delta_mode == "relative", seed, positions, policy)

    def registrations() -> Iterator[Callable[[], Any]]:
        yield partial(lm.hf.register_forward_pre_hook, state.begin, with_kwargs=True)
        yield partial(lm.hf.register_forward_hook, state.end, always_call=True)
        for layer in layers:
            yield partial(lm.blocks[layer].register_forward_hook, state.hook(layer))

    with hooked(registrations()):
        yield
    if state.left:
        done = "perturbed all the same" if policy.level("infeasible", arm) == "apply" else "left unperturbed"
        warnings.warn(
            f"{state.left} of {state.asked} states were {done}: delta = {delta} is not below their norm", stacklevel=3
        )


def _validate(
    lm: "LanguageModel", layers: Sequence[int], arm: str, delta: float, delta_mode: str, positions: str, policy: Policy
) -> None:
    def refuse(what: str, where: str, fix: str) -> UsageError:
        return UsageError(what, where=f"perturbed({where}=...)", fix=fix)

    if arm not in ARMS:
        raise refuse(f"{arm!r} is not an arm", "arm", f"Choose one of {', '.join(ARMS)}.")
    for layer in layers:
        if not 0 <= layer < lm.n_layers:
            raise refuse(f"there is no block {layer}", "layers", f"Blocks are numbered 0 to {lm.n_layers - 1}.")
    if delta_mode not in ("relative", "absolute"):
        raise refuse(f"{delta_mode!r} is not possible here", "delta_mode", "Choose relative or absolute.")
    if not 0 <= delta < (1 if delta_mode == "relative" else float("inf")):
        raise refuse(f"{delta} is out of range", "delta", "Give a number >= 0, in relative mode below 1.")
    if positions not in POSITIONS:
        raise refuse(
            f"{positions!r} is not a choice of positions", "positions", f"Choose one of {', '.join(POSITIONS)}."
        )
    # These need more than the tokens so far: the final length, or clean states of the run.
    for factor, level in (
        ("across_items", "by-length"),
        ("matching", "mean"),
        ("plane", "covariance"),
        ("plane", "data"),
    ):
        if policy.level(factor, arm) == level:
            raise refuse(f"the level {level!r} of {factor} is not possible here", "policy", "Choose another level.")
