"""What a folder that should hold a model holds, decided from its files before anything is loaded."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polarlens.errors import ModelError, UsageError

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
_LOADABLE_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "tekken.json",
    "*.tiktoken",
)


@dataclass(frozen=True)
class ModelFolder:
    """The checked contents of a folder: `config.json` as read, and whether the weights are pickles."""

    path: Path
    config: dict[str, Any]
    pickled: bool
    has_tokenizer: bool


def examine_folder(path: Path, *, name: str, trust_pickle: bool, trust_remote_code: bool) -> ModelFolder:
    """Check a folder's files.

    Raises UsageError when it holds no model, ModelError for a configuration without weights, damaged configurations,
    pickled weights and code of its own without the flag that allows them.
    """
    files = sorted(p for p in path.iterdir() if p.is_file())
    if not (path / "config.json").exists():
        gguf = [p for p in files if p.suffix == ".gguf"]
        what = "the folder is empty" if not any(path.iterdir()) else "the folder holds no model (no config.json)"
        fix = f"Name the file itself: {gguf[0]}." if gguf else "Name a folder with config.json and *.safetensors."
        raise UsageError(what, where=name, fix=fix)
    config = _read_config(path / "config.json")
    safetensors = [p for p in files if p.suffix == ".safetensors"]
    pickles = [p for p in files if p.suffix in PICKLES and p.name != "training_args.bin"]
    if not safetensors and not pickles:
        raise ModelError("there is a configuration but no weights", where=name, fix="Add the *.safetensors files.")
    if not safetensors and not trust_pickle:
        raise ModelError(
            f"the weights are pickled ({pickles[0].name}), and reading a pickle can run code",
            where=name,
            fix="Convert them to safetensors, or give --trust-pickle if you trust the source.",
        )
    if not safetensors and not any((path / weights).exists() for weights in _LOADABLE_PICKLES):
        raise ModelError(
            f"the weights are in a format that cannot be read ({pickles[0].name})",
            where=name,
            fix="Convert them to safetensors.",
        )
    if _needs_own_code(path, config) and not trust_remote_code:
        raise ModelError(
            "the model comes with code of its own that would have to be run",
            where=name,
            fix="Read the code, then give --trust-remote-code.",
        )
    has_tokenizer = any(True for pattern in TOKENIZERS for _ in path.glob(pattern))
    return ModelFolder(path, config, not safetensors, has_tokenizer)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelError(f"the configuration is not valid JSON ({error})", where=str(path)) from None
    if not isinstance(config, dict):
        raise ModelError("the configuration is not a JSON object", where=str(path))
    return config


def _needs_own_code(path: Path, config: dict[str, Any]) -> bool:
    """Whether the configuration names code of its own for a model type that transformers does not know."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return "auto_map" in config and config.get("model_type") not in CONFIG_MAPPING
