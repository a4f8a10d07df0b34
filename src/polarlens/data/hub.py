"""Data sets from the Hugging Face Hub: from the local cache where they are in it, else over the network."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any

from polarlens.data.records import FIELD_NAMES
from polarlens.data.spec import HubSet
from polarlens.errors import UsageError

PATIENCE_S = 2.5
"""How long to wait for the Hub's first answer. The libraries themselves retry for 20 s and more without a network."""

USE_A_FILE = (
    "Without a network use local files: --text FILE (.txt, .jsonl, .tsv, .csv, .conllu), "
    "--pairs FILE (.jsonl, .tsv, .csv)"
)


def load_rows(hub_set: HubSet, *, where: str, names: Sequence[str] = FIELD_NAMES) -> list[dict[str, object]]:
    """The rows of one split, with only the fields that items are made of; class labels by name.

    where: names the set in messages. names: the fields. Raises UsageError when it cannot be had: no network (within
    seconds), no such set, configuration or split, a split to choose, none of the known columns.
    """
    answer = _ask_hub(hub_set.name)  # asked first, because the import behind `_cached` takes seconds of its own
    splits = _cached(hub_set, where)
    if splits is None:
        if (error := answer()) is not None:
            raise _unavailable(error, hub_set, where)
        splits = _download(hub_set, where)
    found = sorted(splits)
    if hub_set.split is None and len(found) > 1:
        fix = f"Choose one, as in {where}:{found[0]}"
        raise UsageError(f"the set has several splits ({', '.join(found)})", where=where, fix=fix)
    split = found[0] if hub_set.split is None else hub_set.split
    if split not in splits:
        raise UsageError(f"the set has no split {split!r}", where=where, fix=f"Choose one of: {', '.join(found)}")
    table = splits[split]
    known = [name for name in table.column_names if name in names]
    if not known:
        raise UsageError(
            f"no column that can be used; found: {', '.join(table.column_names)}",
            where=where,
            fix=f"Write the rows to a local file with some of these columns: {', '.join(names)}",
        )
    rows: list[dict[str, object]] = table.select_columns(known).to_list()
    for name in known:
        # A list of labels is stored as a list of their numbers.
        labels = getattr(getattr(table.features[name], "feature", None), "names", None)
        if labels is not None:
            for row in rows:
                row[name] = [labels[number] for number in row[name]]  # type: ignore[attr-defined]
    return rows


def digest(rows: list[dict[str, object]]) -> str:
    """SHA-256 (hex) over the rows: each as JSON with sorted keys, ASCII only, and a newline after it.

    Only the fields that `load_rows` keeps are in it; what JSON has no form for is hashed as its `str`.
    """
    total = hashlib.sha256()
    for row in rows:
        total.update(json.dumps(row, sort_keys=True, default=str).encode("ascii") + b"\n")
    return total.hexdigest()


def _cached(hub_set: HubSet, where: str) -> Mapping[str, Any] | None:
    """The splits of a set that was loaded before, without the network; None where it is not in the cache."""
    try:
        from datasets.packaged_modules.cache.cache import Cache
    except ImportError:
        fix = f"Install it (pip install datasets). {USE_A_FILE}"
        raise UsageError("Hub sets need the package datasets", where=where, fix=fix) from None
    try:
        splits: Mapping[str, Any] = Cache(
            repo_id=hub_set.name,
            dataset_name=hub_set.name.split("/")[-1],
            config_name=hub_set.config,
            version="auto",
            hash="auto",
        ).as_dataset()
    except (ValueError, OSError):
        return None
    return splits


def _ask_hub(name: str) -> Callable[[], Exception | None]:
    """Ask the Hub for a set; what is returned waits for the answer: None when it has the set, else what went wrong."""
    from huggingface_hub import HfApi

    answers: SimpleQueue[Exception | None] = SimpleQueue()

    def ask() -> None:
        try:
            HfApi().dataset_info(name, timeout=PATIENCE_S)
        except Exception as error:  # whatever it is, `_unavailable` puts it into words
            answers.put(error)
        else:
            answers.put(None)

    # In a thread of its own, since looking up a host's name obeys no timeout; a daemon, so that it never holds up exit.
    Thread(target=ask, daemon=True).start()
    start = monotonic()

    def answer() -> Exception | None:
        try:
            return answers.get(timeout=max(0.5, PATIENCE_S - (monotonic() - start)))
        except Empty:
            return TimeoutError(f"no answer within {PATIENCE_S:g} s")

    return answer


def _unavailable(error: Exception, hub_set: HubSet, where: str) -> UsageError:
    from huggingface_hub.errors import HFValidationError, OfflineModeIsEnabled, RepositoryNotFoundError

    if isinstance(error, HFValidationError | RepositoryNotFoundError):
        fix = f"Check the name at https://huggingface.co/datasets; a private set needs a token. {USE_A_FILE}"
        return UsageError(f"the Hub has no data set {hub_set.name!r} that you may read", where=where, fix=fix)
    reason = "offline mode is set" if isinstance(error, OfflineModeIsEnabled) else _first_line(error)
    what = f"the Hugging Face Hub cannot be reached ({reason}) and the set is not in the local cache"
    return UsageError(what, where=where, fix=USE_A_FILE)


def _download(hub_set: HubSet, where: str) -> Mapping[str, Any]:
    from datasets import load_dataset

    try:
        splits: Mapping[str, Any] = load_dataset(hub_set.name, hub_set.config)
    except Exception as error:  # the loader raises many kinds, and all mean that this set cannot be had as named
        raise UsageError(f"the set cannot be loaded ({_first_line(error)})", where=where, fix=USE_A_FILE) from error
    return splits


def _first_line(error: Exception) -> str:
    """An error of another library, short enough for a message."""
    line = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {line[:300]}" if line else type(error).__name__
