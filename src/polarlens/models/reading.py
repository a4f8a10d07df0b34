"""Reading a model's configuration, weights and tokenizer, with every way it can fail told apart."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from polarlens.errors import ModelError
from polarlens.models.digest import state_of
from polarlens.models.folder import ModelFolder
from polarlens.models.gguf_file import GgufHeader
from polarlens.models.kinds import refuse_other_kinds
from polarlens.models.language_model import LanguageModel
from polarlens.models.notes import gguf_notes
from polarlens.models.placement import dtype_of, place, placement
from polarlens.models.quiet import quiet
from polarlens.models.source import Source


def read_folder(
    name: str, folder: ModelFolder, source: Source, *, device: str, dtype: str, trust_remote_code: bool = False
) -> LanguageModel:
    """The model in a folder whose files have been checked. Errors as in `load`."""
    where, kind, at = placement(device), dtype_of(dtype), str(folder.path)
    trust: dict[str, Any] = {"trust_remote_code": trust_remote_code, "local_files_only": True}
    with quiet():
        try:
            config = AutoConfig.from_pretrained(at, **trust)
        except Exception as error:
            _unsupported(name, folder.config.get("model_type"), error)
        refuse_other_kinds(name, config)
        hf = _model(name, at, config, where, kind, use_safetensors=not folder.pickled, **trust)
        tokenizer = None
        if folder.has_tokenizer:
            try:
                tokenizer = AutoTokenizer.from_pretrained(at, config=config, **trust)
            except Exception as error:
                raise ModelError(f"the tokenizer cannot be read: {_first_line(error)}", where=name) from error
    quantised = (folder.config.get("quantization_config") or {}).get("quant_method")
    source = replace(source, quantisation=str(quantised)) if quantised else source
    return LanguageModel(hf, tokenizer, name=name, source=source)


def read_gguf(name: str, path: Path, header: GgufHeader, *, device: str, dtype: str) -> LanguageModel:
    """The model in a GGUF file, dequantised. Errors as in `load`."""
    where, kind = placement(device), dtype_of(dtype)
    folder, file = str(path.parent), path.name
    with quiet(stderr=True):
        try:
            # Handed on to the model, which would otherwise list the whole vocabulary once more to get it.
            config = AutoConfig.from_pretrained(folder, gguf_file=file)
        except Exception as error:
            _unsupported(name, header.architecture, error)
        refuse_other_kinds(name, config)
        hf = _model(name, folder, config, where, kind, gguf_file=file, local_files_only=True, **_dequantised())
        try:
            # AutoTokenizer would first list the vocabulary again for a configuration: seconds for the same result.
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, gguf_file=file)
        except Exception as error:
            raise ModelError(f"the tokenizer cannot be read: {_first_line(error)}", where=name) from error
    source = Source("gguf", str(path.resolve()), quantisation=header.quantisation)
    return LanguageModel(hf, tokenizer, name=name, source=source, notes=gguf_notes(header, hf.config))


def _dequantised() -> dict[str, Any]:
    """Versions of transformers that can keep GGUF weights packed must be told not to."""
    config = getattr(transformers, "GgufConfig", None)
    return {} if config is None else {"quantization_config": config(dequantize=True)}


def _model(name: str, at: str, config: Any, device: str, dtype: torch.dtype, **options: Any) -> PreTrainedModel:
    """The model with all its weights, finite, on its device."""
    if dtype == torch.float64:
        options["experts_implementation"] = "eager"  # the grouped product of mixtures of experts has no float64
    if device == "split":
        options["device_map"] = "auto"
    try:
        hf, report = AutoModelForCausalLM.from_pretrained(
            at, config=config, dtype=dtype, output_loading_info=True, **options
        )
    except torch.OutOfMemoryError:
        raise ModelError(
            "the model does not fit", where=f"{name} on {device}", fix="Try --dtype bfloat16 or --device split."
        ) from None
    except ImportError as error:
        raise ModelError(f"a package is missing: {_first_line(error)}", where=name, fix="Install it.") from error
    except Exception as error:
        raise ModelError(
            f"the weights cannot be read: {_first_line(error)}",
            where=name,
            fix="The files may be cut off or belong to another model: get them again.",
        ) from error
    lost = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
    if lost:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        raise ModelError(
            f"the checkpoint lacks weights, which would be random: {', '.join(lost[:3])}{more}",
            where=name,
            fix="The files may belong to another model class: get the causal language model's checkpoint.",
        )
    check_finite(name, hf)
    return place(hf, device)


def check_finite(name: str, hf: PreTrainedModel) -> None:
    """Raise ModelError naming the first tensor of the weights that holds a NaN or an infinity."""
    for tensor_name, tensor in sorted(state_of(hf).items()):
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ModelError(
                f"the weights hold values that are not finite, in the tensor {tensor_name!r}",
                where=name,
                fix="Get the checkpoint again, or load it in float32 if it overflows in a smaller dtype.",
            )


def _unsupported(name: str, model_type: object, error: Exception) -> NoReturn:
    what = f"the architecture {model_type!r}" if model_type else "a configuration without model_type"
    raise ModelError(
        f"{what} is not supported by transformers {transformers.__version__} ({_first_line(error)})",
        where=name,
        fix="A newer transformers may know it.",
    ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:300].rstrip(".")
