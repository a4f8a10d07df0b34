"""Models by Hub id: the local cache first, then the network with little patience."""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polarlens.errors import ModelError, UsageError

PATIENCE = 3.0  # seconds to wait for the Hub's first answer
ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_TEXT = (".json", ".txt", ".model", ".jinja", ".tiktoken")
_PICKLES = (".bin", ".pt", ".pth")
OTHER_WAYS = "Give a local folder or a .gguf file, or a model that is already in the Hugging Face cache."


def fetch(name: str, revision: str | None, *, trust_pickle: bool, trust_remote_code: bool) -> tuple[Path, str]:
    """The folder of a Hub model's files and its commit; downloads what the cache does not hold.

    Raises UsageError when there is no network or no such model, ModelError when it has pickled weights only.
    """
    import huggingface_hub as hub
    from huggingface_hub import errors

    # Only a complete copy counts: an interrupted download leaves a configuration without weights.
    try:
        cached = Path(hub.snapshot_download(name, revision=revision, local_files_only=True))
        if _is_complete(cached):
            return cached, cached.name
    except (errors.LocalEntryNotFoundError, errors.HFValidationError, OSError, ValueError):
        pass
    where = name if revision is None else f"{name}@{revision}"
    try:
        info = _patiently(lambda: hub.HfApi().model_info(name, revision=revision, timeout=PATIENCE))
    except errors.RevisionNotFoundError:
        raise UsageError(
            "the model has no such revision on the Hub", where=where, fix="Check the part after @."
        ) from None
    except (errors.RepositoryNotFoundError, errors.GatedRepoError):
        raise UsageError(
            "there is no such model on the Hub, or it needs permission",
            where=where,
            fix="Check the name; for gated models log in with `hf auth login`.",
        ) from None
    except Exception:  # offline mode, no route, no name service, time-outs: the client has many words for it
        raise UsageError(
            "this is neither a local path nor in the Hugging Face cache, and the Hub cannot be reached",
            where=where,
            fix=OTHER_WAYS,
        ) from None
    wanted = _wanted([s.rfilename for s in info.siblings or []], where, trust_pickle, trust_remote_code)
    from polarlens.models.quiet import quiet  # imports transformers

    try:
        with quiet():
            folder = hub.snapshot_download(name, revision=info.sha, allow_patterns=wanted)
    except Exception as error:
        raise UsageError(f"the download failed: {error}", where=where, fix=f"Try again. {OTHER_WAYS}") from None
    return Path(folder), str(info.sha)


def _is_complete(folder: Path) -> bool:
    """Whether a cached folder has a configuration and all its weights (a sharded model names its shards)."""
    index = folder / "model.safetensors.index.json"
    shards = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else set()
    weights = [p for p in folder.iterdir() if p.suffix in (".safetensors", *_PICKLES)]
    return (folder / "config.json").exists() and bool(weights) and all((folder / shard).exists() for shard in shards)


def _wanted(files: list[str], where: str, trust_pickle: bool, trust_remote_code: bool) -> list[str]:
    """The files to download: configuration, tokenizer, and one set of weights."""
    top = [f for f in files if "/" not in f]
    weights = [f for f in top if f.endswith(".safetensors")]
    weights = [f for f in weights if f.startswith("model")] or weights
    if not weights and trust_pickle:
        weights = [f for f in top if f.endswith(_PICKLES)]
    if not weights:
        pickled = any(f.endswith(_PICKLES) for f in top)
        raise ModelError(
            "the model has pickled weights only" if pickled else "the model has no safetensors weights",
            where=where,
            fix="Pickles can run code: give --trust-pickle if you trust the source." if pickled else OTHER_WAYS,
        )
    code = [f for f in files if f.endswith(".py")] if trust_remote_code else []
    return weights + [f for f in top if f.endswith(_TEXT)] + code


def _patiently(ask: Callable[[], Any]) -> Any:
    """The answer, or TimeoutError after PATIENCE seconds: name look-ups have time-outs of their own, in a thread."""
    result: list[Any] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            result.append(ask())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if failure:
        raise failure[0]
    if not result:
        raise TimeoutError
    return result[0]
