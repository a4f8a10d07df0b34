"""Finding the parts of a family that has no record: by structure and behaviour, never by class or module names."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from polarlens.errors import ModelError
from polarlens.models.anatomy import Block
from polarlens.models.hooks import Call, first_input, first_tensor, recorded
from polarlens.models.norms import kind_of
from polarlens.models.sites import ATTENTION, MLP
from polarlens.models.verify import Calls, Unclear, gap, only_call


def find_layers(model: str, hf: PreTrainedModel, n_layers: int) -> nn.ModuleList:
    """The one ModuleList of length `n_layers` in the decoder (not counting lists inside such a list)."""
    decoder = hf.get_decoder() if hasattr(hf, "get_decoder") else hf
    found = {
        name: module
        for name, module in decoder.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == n_layers
    }
    outer = {
        name: module
        for name, module in found.items()
        if not any(name != other and name.startswith(f"{other}.") for other in found)
    }
    if len(outer) != 1:
        what = (
            f"{len(outer)} lists of {n_layers} modules ({', '.join(sorted(outer))}), "
            "so which one holds the blocks is ambiguous"
            if outer
            else f"no list of {n_layers} modules that could hold the blocks"
        )
        raise ModelError(
            f"the family {hf.config.model_type!r} has no record, and its model has {what}",
            where=model,
            fix="Add a record for the family to polarlens.models.families.FAMILIES.",
        )
    return next(iter(outer.values()))


def discover_blocks(
    layers: nn.ModuleList, width: int, run: Callable[[], object], tolerance: float
) -> tuple[Block, ...]:
    """The parts of each block, from one recorded forward pass; what stays unclear stays None."""
    children = [child for block in layers for child in block.children()]
    with recorded([*layers, *children], keep_arguments=True) as calls:
        run()
    return tuple(_discover(i, block, calls, width, tolerance) for i, block in enumerate(layers))


def _discover(index: int, module: nn.Module, calls: Calls, width: int, tolerance: float) -> Block:
    found = Block(index, module)
    try:
        x, y = only_call(calls, module, "block")
        children = [child for child in module.children() if len(calls.get(child, ())) == 1 and _acts(calls[child][0])]
        norms = [c for c in children if kind_of(c, width, x) != "unknown"]
        rest = [c for c in children if c not in norms]
        mixing = [c for c in rest if _mixes_tokens(c, calls[c][0])]
        if len(mixing) != 1:
            return found
        attention = mixing[0]
        others = [c for c in rest if c is not attention]
        for mlp in (c for c in others if (out := calls[c][0].output) is not None and out.numel() == x.numel()):
            block = _assemble(index, module, attention, mlp, others, norms, calls, tolerance)
            if _sums_up(block, calls, x, y, tolerance):
                return block
    except Unclear:
        return found
    return found


def _assemble(
    index: int,
    module: nn.Module,
    attention: nn.Module,
    mlp: nn.Module,
    others: Sequence[nn.Module],
    norms: Sequence[nn.Module],
    calls: Calls,
    tolerance: float,
) -> Block:
    """A block whose norms have the roles that the flow of values gives them."""
    x, _ = only_call(calls, module, "block")
    reads, raw_a = only_call(calls, attention, "attention")
    _, raw_m = only_call(calls, mlp, "MLP")
    # The MLP may be two modules of the block (fc1, fc2): its input is then the first that reads a state.
    mlp_input = next((c for c in others if (i := calls[c][0].input) is not None and i.numel() == x.numel()), mlp)
    feeds, _ = only_call(calls, mlp_input, "MLP")

    def norm(test: Callable[[Tensor, Tensor], bool]) -> nn.Module | None:
        return next((n for n in norms if test(*only_call(calls, n, "norm"))), None)

    def same(left: Tensor, right: Tensor) -> bool:
        return gap(left, right) <= tolerance

    return Block(
        index=index,
        module=module,
        attention=attention,
        mlp=mlp,
        mlp_input=mlp_input,
        pre_attention_norm=norm(lambda i, o: same(i, x) and same(o, reads)),
        pre_mlp_norm=norm(lambda i, o: same(o, feeds) and not same(o, reads) and not same(i, raw_a)),
        post_attention_norm=norm(lambda i, o: same(i, raw_a)),
        post_mlp_norm=norm(lambda i, o: same(i, raw_m)),
    )


def _sums_up(block: Block, calls: Calls, x: Tensor, y: Tensor, tolerance: float) -> bool:
    _, raw_a = only_call(calls, block.source(ATTENTION), "attention")
    _, raw_m = only_call(calls, block.source(MLP), "MLP")
    if raw_a.numel() != x.numel() or raw_m.numel() != x.numel():
        return False
    return gap(x + raw_a.reshape(x.shape) + raw_m.reshape(x.shape), y) <= tolerance


def _acts(call: Call) -> bool:
    """Whether the module does anything (dropout does not, in eval mode)."""
    i, o = call.input, call.output
    return i is not None and o is not None and not (i.shape == o.shape and torch.equal(i, o))


def _mixes_tokens(module: nn.Module, call: Call) -> bool:
    """Whether the last token's output depends on the other tokens: the module is run again with those changed."""
    hidden = first_input(call.args, call.kwargs)
    if hidden is None or hidden.dim() != 3 or hidden.shape[1] < 2:
        return False
    changed = hidden.clone()
    changed[:, :-1] = -changed[:, :-1].flip(-1)

    def again(state: Tensor) -> Tensor | None:
        args = tuple(state if a is hidden else a for a in call.args)
        kwargs = {name: state if value is hidden else value for name, value in call.kwargs.items()}
        with torch.no_grad():
            return first_tensor(module(*args, **kwargs))

    try:
        before, after = again(hidden.clone()), again(changed)
    except Exception:  # a module that cannot be run on its own shows nothing
        return False
    if before is None or after is None or before.dim() != 3:
        return False
    return gap(after[:, -1], before[:, -1]) > 1e-6
