"""Loading a model by name: a Hub id, a folder or a GGUF file, with every way it can fail told apart."""

import os
from pathlib import Path
from typing import Any, NoReturn

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from polarlens.errors import ModelError, UsageError
from polarlens.models import hub
from polarlens.models.folder import ModelFolder, examine_folder
from polarlens.models.gguf_file import is_gguf, read_header
from polarlens.models.kinds import refuse_other_kinds
from polarlens.models.language_model import LanguageModel, Source, check_finite
from polarlens.models.placement import DEVICES, dtype_of, place, placement
from polarlens.models.quiet import quiet

__all__ = ["DEVICES", "load"]


def load(
    name: str | os.PathLike[str],
    *,
    device: str = "cpu",
    dtype: str = "float32",
    revision: str | None = None,
    trust_pickle: bool = False,
    trust_remote_code: bool = False,
) -> LanguageModel:
    """Load a causal language model and verify its anatomy.

    Parameters
    ----------
    name: a Hub id (`EleutherAI/pythia-410m`, `@revision` allowed), a local folder, or a `.gguf` file.
    device: cpu | cuda | mps | auto (the best single device) | split (over several devices by accelerate).
    dtype: float32 | bfloat16 | float16 | float64. Quantised GGUF weights are dequantised to it.
    revision: of a Hub model: branch, tag or commit.
    trust_pickle, trust_remote_code: allow pickled weights and code that comes with the model; both can run anything.

    A cached Hub model needs no network. Weights that are missing from a checkpoint are refused, not initialised.

    Raises UsageError when the model cannot be found or read as named, ModelError when it is there but not usable.
    """
    name = os.fspath(name)
    where, type_ = placement(device), dtype_of(dtype)
    path = Path(name).expanduser()
    if name.startswith("twin-"):
        raise UsageError(
            "the bundled twins are not part of this version", where=name, fix="Name a Hub id, a folder or a .gguf file."
        )
    if path.is_file() or name.lower().endswith(".gguf"):
        if revision is not None:
            raise UsageError("a file has no revisions", where=name, fix="Leave the revision out.")
        return _load_gguf(name, path, where, type_)
    if path.is_dir():
        if revision is not None:
            raise UsageError("a folder has no revisions", where=name, fix="Leave the revision out.")
        folder = examine_folder(path, name=name, trust_pickle=trust_pickle, trust_remote_code=trust_remote_code)
        return _load_folder(name, folder, Source("directory", str(path.resolve())), where, type_, trust_remote_code)
    repository, _, named = name.partition("@")
    if not hub.ID.fullmatch(repository) or name.startswith((".", "~", "/")):
        raise UsageError("there is no such file or folder", where=name, fix="Check the path.")
    if named and revision not in (None, named):
        raise UsageError(f"two revisions are given, {named} and {revision}", where=name, fix="Give one.")
    at, commit = hub.fetch(
        repository, named or revision, trust_pickle=trust_pickle, trust_remote_code=trust_remote_code
    )
    folder = examine_folder(at, name=name, trust_pickle=trust_pickle, trust_remote_code=trust_remote_code)
    return _load_folder(name, folder, Source("hub", repository, commit), where, type_, trust_remote_code)


def _load_folder(
    name: str, folder: ModelFolder, source: Source, device: str, dtype: torch.dtype, trust_remote_code: bool
) -> LanguageModel:
    at = str(folder.path)
    with quiet():
        try:
            config = AutoConfig.from_pretrained(at, trust_remote_code=trust_remote_code, local_files_only=True)
        except Exception as error:
            _unsupported(name, folder.config, error)
        refuse_other_kinds(name, config)
        hf = _weights(
            name,
            at,
            config,
            device,
            dtype,
            use_safetensors=not folder.pickled,
            trust_remote_code=trust_remote_code,
        )
        tokenizer = None
        if folder.has_tokenizer:
            try:
                tokenizer = AutoTokenizer.from_pretrained(
                    at, config=config, trust_remote_code=trust_remote_code, local_files_only=True
                )
            except Exception as error:
                raise ModelError(f"the tokenizer cannot be read: {_first_line(error)}", where=name) from error
    quantised = folder.config.get("quantization_config", {}).get("quant_method")
    if quantised is not None:
        source = Source(source.kind, source.location, source.revision, str(quantised))
    return LanguageModel(hf, tokenizer, name=name, source=source)


def _load_gguf(name: str, path: Path, device: str, dtype: torch.dtype) -> LanguageModel:
    if not path.is_file():
        raise UsageError("there is no such file", where=name, fix="Check the path.")
    if not is_gguf(path):
        raise UsageError("this is not a GGUF file", where=name, fix="Name a .gguf file, a model folder or a Hub id.")
    header = read_header(path)
    folder, file = str(path.parent), path.name
    with quiet(stderr=True):
        try:
            # Handed on to the model, which would otherwise list the vocabulary once more to get it.
            config = AutoConfig.from_pretrained(folder, gguf_file=file)
        except Exception as error:
            _unsupported(name, {"model_type": header.architecture}, error)
        refuse_other_kinds(name, config)
        hf = _weights(name, folder, config, device, dtype, gguf_file=file, **_dequantised())
        try:
            # Not AutoTokenizer, which reads the configuration, and with it the vocabulary, again: seconds for the same.
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, gguf_file=file)
        except Exception as error:
            raise ModelError(f"the tokenizer cannot be read: {_first_line(error)}", where=name) from error
    source = Source("gguf", str(path.resolve()), None, header.quantisation)
    return LanguageModel(hf, tokenizer, name=name, source=source)


def _dequantised() -> dict[str, Any]:
    """Newer versions of transformers keep GGUF weights packed unless told otherwise."""
    try:
        from transformers import GgufConfig
    except ImportError:
        return {}
    return {"quantization_config": GgufConfig(dequantize=True)}


def _weights(name: str, at: str, config: Any, device: str, dtype: torch.dtype, **options: Any) -> PreTrainedModel:
    """The model with all its weights, finite, on its device."""
    if dtype == torch.float64:
        options["experts_implementation"] = "eager"  # the grouped product of mixtures of experts has no float64
    try:
        hf, report = AutoModelForCausalLM.from_pretrained(
            at,
            config=config,
            dtype=dtype,
            output_loading_info=True,
            local_files_only=True,
            **({"device_map": "auto"} if device == "split" else {}),
            **options,
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
    lost = sorted(report["missing_keys"]) + sorted(str(k) for k in report["mismatched_keys"])
    if lost:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        raise ModelError(
            f"the checkpoint lacks weights, which would be random: {', '.join(lost[:3])}{more}",
            where=name,
            fix="The files may belong to another model class: get the causal language model's checkpoint.",
        )
    check_finite(name, hf)
    return place(hf, device)


def _unsupported(name: str, config: dict[str, Any], error: Exception) -> NoReturn:
    import transformers

    kind = config.get("model_type")
    what = f"the architecture {kind!r}" if kind else "a configuration without model_type"
    raise ModelError(
        f"{what} is not supported by transformers {transformers.__version__} ({_first_line(error)})",
        where=name,
        fix="A newer transformers may know it.",
    ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:300].rstrip(".")
