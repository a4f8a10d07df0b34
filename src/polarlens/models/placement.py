"""Devices and dtypes by name, and putting a model where it is wanted."""

import torch
from transformers import PreTrainedModel

from polarlens.errors import ModelError, UsageError

DEVICES = ("cpu", "cuda", "mps", "auto", "split")
DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}


def dtype_of(name: str) -> torch.dtype:
    """The torch dtype of a name in DTYPES; UsageError for another."""
    if name not in DTYPES:
        raise UsageError(f"{name!r} is not a dtype", where="--dtype", fix=f"Choose one of {', '.join(DTYPES)}.")
    return DTYPES[name]


def placement(name: str) -> str:
    """`cpu`, `cuda`, `mps` or `split`, available here; `auto` becomes the best single one."""
    if name not in DEVICES:
        raise UsageError(f"{name!r} is not a device", where="--device", fix=f"Choose one of {', '.join(DEVICES)}.")
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if available[device])
    if name == "split":
        return name
    if not available[name]:
        raise UsageError(f"there is no {name} device here", where=f"--device {name}", fix="Choose auto or cpu.")
    return name


def place(hf: PreTrainedModel, device: str) -> PreTrainedModel:
    """The model on its device; a split one stays where accelerate put it."""
    if device == "split":
        return hf
    if device == "mps" and hf.dtype == torch.float64:
        raise UsageError("mps has no float64", where="--dtype float64", fix="Choose float32.")
    try:
        return hf.to(device)
    except torch.OutOfMemoryError:
        raise ModelError(
            "the model does not fit", where=f"--device {device}", fix="Try --dtype bfloat16 or --device split."
        ) from None
