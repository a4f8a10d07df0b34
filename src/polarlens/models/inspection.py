"""Taking a loaded model apart: record or discovery, then verification on random token ids."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from polarlens.errors import ModelError
from polarlens.models.anatomy import Anatomy, Block, block_of, resolve
from polarlens.models.chain import TOKENS, block_output_site, check_chain, final_norm_site, pattern_site, probe_ids
from polarlens.models.discover import discover_blocks, find_layers
from polarlens.models.families import Family, family_of
from polarlens.models.hooks import recorded
from polarlens.models.norms import common_kind, kind_of
from polarlens.models.sites import BLOCK_OUTPUT, Site
from polarlens.models.verify import TOLERANCE, Calls, examine, merge


def text_config(hf: PreTrainedModel) -> Any:
    """The configuration of the language model proper (multimodal models nest it)."""
    return hf.config.get_text_config(decoder=True)


def window_of(config: Any) -> int | None:
    """The largest number of positions that the configuration allows, or None where it names none."""
    for name in ("max_position_embeddings", "n_positions", "max_seq_len"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None


def inspect(model: str, hf: PreTrainedModel, n_tokens: int | None, device: torch.device) -> Anatomy:
    """The verified anatomy of a causal model.

    n_tokens: size of the tokenizer; random ids stay below it and below the vocabulary (rows beyond are padding).

    Raises ModelError when the blocks cannot be found or their outputs cannot be verified.
    """
    config = text_config(hf)
    head = hf.get_output_embeddings()
    if head is None:
        raise ModelError("the model has no output embedding (language-model head)", where=model)
    rows = hf.get_input_embeddings().num_embeddings
    special = (getattr(config, f"{role}_token_id", None) for role in ("pad", "eos"))
    avoid = [i for i in special if isinstance(i, int)]
    length = min(TOKENS, window_of(config) or TOKENS)
    ids = probe_ids(min(rows, n_tokens or rows), avoid, length).to(device)

    def run() -> Tensor:
        with torch.no_grad():
            return hf(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits

    like = torch.empty(0, dtype=hf.dtype, device=device)
    tolerance = TOLERANCE.get(hf.dtype, TOLERANCE[torch.float32])
    family = family_of(config)
    layers = _layers(model, hf, config.num_hidden_layers, family)
    try:
        blocks, known = _blocks(layers, family, config, run, tolerance)
        final = resolve(hf, family.final_norm) if family and known else None
        has_none = known and family is not None and family.final_norm is None
        # A multimodal model holds its text model, and so the final norm, somewhere else than the record says.
        searched = [] if final or has_none else _norms_beside(hf, layers, config.hidden_size, like)
        candidates = [final] if final else searched
        with recorded(_modules(layers, blocks, head, candidates), keep_arguments=True) as calls:
            logits = run()
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
        raise ModelError(
            f"a forward pass over {ids.numel()} random tokens failed: {str(error).splitlines()[0]}", where=model
        ) from error

    chain = check_chain(model, blocks, calls, config.hidden_size, tolerance)
    wiring, sites = merge([examine(block, calls, tolerance) for block in blocks])
    final_site, final = _final(candidates, head, layers[-1], calls, tolerance)
    pattern = pattern_site(hf, run, logits, len(blocks), tolerance)
    output = block_output_site(chain)
    norms = [norm for block in blocks for norm in block.norms] or _norms_in(layers, config.hidden_size, like)
    norms += [final] if final else []
    return Anatomy(
        model=model,
        family=config.model_type,
        known=known,
        layers=layers,
        blocks=blocks,
        final_norm=final,
        head=head,
        wiring=wiring,
        norm_kind=common_kind(norms, config.hidden_size, like),
        returns_tuple=tuple(calls[block.module][0].returns_tuple for block in blocks),
        sites={BLOCK_OUTPUT: output, **sites, final_site.name: final_site, pattern.name: pattern},
    )


def _layers(model: str, hf: PreTrainedModel, n_layers: int, family: Family | None) -> nn.ModuleList:
    at_record = resolve(hf, family.layers) if family else None
    if isinstance(at_record, nn.ModuleList) and len(at_record) == n_layers:
        return at_record
    return find_layers(model, hf, n_layers)


def _blocks(
    layers: nn.ModuleList, family: Family | None, config: Any, run: Any, tolerance: float
) -> tuple[tuple[Block, ...], bool]:
    """The blocks, and whether a family's record describes them (a record whose parts are not there does not)."""
    if family:
        multiplier = float(getattr(config, family.residual_multiplier)) if family.residual_multiplier else 1.0
        blocks = tuple(block_of(family, i, module, multiplier) for i, module in enumerate(layers))
        if all(block.attention is not None and block.mlp is not None for block in blocks):
            return blocks, True
    return discover_blocks(layers, config.hidden_size, run, tolerance), False


def _norms_in(layers: nn.ModuleList, width: int, like: Tensor) -> list[nn.Module]:
    """Norms that are parts of a block, whatever their role."""
    return [part for layer in layers for part in layer.children() if kind_of(part, width, like) != "unknown"]


def _norms_beside(hf: PreTrainedModel, layers: nn.ModuleList, width: int, like: Tensor) -> list[nn.Module]:
    """Norms outside the blocks."""
    inside = {module for layer in layers for module in layer.modules()}
    beside = (m for m in hf.modules() if m not in inside and not list(m.children()))
    return [
        m
        for m in beside
        if not isinstance(m, nn.Embedding | nn.Linear | nn.Dropout) and kind_of(m, width, like) != "unknown"
    ]


def _modules(
    layers: nn.ModuleList, blocks: tuple[Block, ...], head: nn.Module, others: list[nn.Module]
) -> list[nn.Module]:
    parts = [m for b in blocks for m in (b.attention, b.mlp, b.mlp_input, *b.norms) if m is not None]
    return [*layers, *parts, head, *others]


def _final(
    candidates: list[nn.Module], head: nn.Module, last: nn.Module, calls: Calls, tolerance: float
) -> tuple[Site, nn.Module | None]:
    """The first candidate that stands between the last block and the head, else none, with the first reason."""
    norms: list[nn.Module | None] = [*candidates] or [None]
    tried = [(final_norm_site(norm, head, last, calls, tolerance), norm) for norm in norms]
    return next((found for found in tried if found[0].available), (tried[0][0], None))
