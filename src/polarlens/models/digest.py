"""Digests that identify what was measured: of a model's weights and of its tokenizer."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel


def state_of(hf: PreTrainedModel) -> Mapping[str, Tensor]:
    """The state dictionary, fetched from where accelerate keeps the parts that are not on a device."""
    if any(parameter.device.type == "meta" for parameter in hf.parameters()):
        from accelerate.utils.modeling import get_state_dict_offloaded_model

        offloaded: Mapping[str, Tensor] = get_state_dict_offloaded_model(hf)
        return offloaded
    return hf.state_dict()


# Where a configuration says how it was read or stored rather than what the model computes.
_INCIDENTAL = {"_name_or_path", "transformers_version", "architectures", "dtype", "quantization_config", "use_cache"}


def config_digest(hf: PreTrainedModel) -> str:
    """SHA-256 (hex) of what the weights do not say: positions, eps, soft-caps, multipliers."""
    settings = {name: value for name, value in hf.config.to_dict().items() if name not in _INCIDENTAL}
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()


def weights_digest(hf: PreTrainedModel) -> str:
    """SHA-256 (hex) over name, dtype, shape and bytes of every tensor of the state dictionary, sorted by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state_of(hf).items()):
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        # NumPy has no bfloat16: the bytes are read as bytes.
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def tokenizer_digest(tokenizer: Any) -> str | None:
    """SHA-256 (hex) of the serialised tokenizer with its special tokens, or None without a tokenizer."""
    if tokenizer is None:
        return None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    serialised = backend.to_str() if backend is not None else repr(sorted(tokenizer.get_vocab().items()))
    special = repr(sorted((role, str(token)) for role, token in tokenizer.special_tokens_map.items()))
    return hashlib.sha256(f"{serialised}\0{special}".encode()).hexdigest()
