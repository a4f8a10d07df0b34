"""Hub ids: the cache is enough, and without it and without a network the message names the ways out."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

from polarlens.errors import ModelError, UsageError
from polarlens.models import hub, load
from tiny import save_tiny, tiny

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Hugging Face cache."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(tmp_path), raising=False)
    return tmp_path


def cached(cache: Path, name: str, ref: str = "main") -> Path:
    """A model in the cache as the Hub's client lays it out."""
    home = cache / f"models--{name.replace('/', '--')}"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / ref).write_text(COMMIT)
    return save_tiny(home / "snapshots" / COMMIT, "gpt2")


def answering(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: answer())


def never_asked() -> None:
    raise AssertionError("the network was asked")


@pytest.mark.parametrize(
    ("name", "revision", "ref"),
    [
        ("someone/model", None, "main"),
        ("someone/model@v1", None, "v1"),
        ("someone/model", "v1", "v1"),
        ("gpt", None, "main"),
    ],
)
def test_a_cached_model_needs_no_network(
    cache: Path, monkeypatch: pytest.MonkeyPatch, name: str, revision: str | None, ref: str
) -> None:
    answering(monkeypatch, never_asked)
    cached(cache, name.partition("@")[0], ref)
    lm = load(name, revision=revision)
    assert (lm.source.kind, lm.source.location, lm.source.revision) == ("hub", name.partition("@")[0], COMMIT)
    assert lm.name == name
    assert lm.n_params == sum(p.numel() for p in tiny("gpt2").parameters())


def test_no_network(cache: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be reached.*local folder or a \.gguf file") as caught:
        load("someone/model@main")
    assert caught.value.where == "someone/model@main"


def test_a_network_that_does_not_answer_is_not_waited_for(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    answering(monkeypatch, answered.wait)
    monkeypatch.setattr(hub, "PATIENCE", 0.05)
    with pytest.raises(UsageError, match="cannot be reached"):
        load("someone/model")
    answered.set()


def test_patience_leaves_room_within_five_seconds() -> None:
    assert hub.PATIENCE <= 3


def test_a_half_downloaded_model_is_not_taken(cache: Path) -> None:
    folder = cached(cache, "someone/model")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="cannot be reached"):
        load("someone/model")


@pytest.mark.parametrize(
    ("error", "message"), [(RepositoryNotFoundError, "no such model"), (RevisionNotFoundError, "no such revision")]
)
def test_what_the_hub_does_not_have(
    cache: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], message: str
) -> None:
    def fail() -> None:
        raise error.__new__(error)

    answering(monkeypatch, fail)
    with pytest.raises(UsageError, match=message):
        load("someone/model")


def files(*names: str) -> Any:
    return lambda: SimpleNamespace(sha=COMMIT, siblings=[SimpleNamespace(rfilename=name) for name in names])


def test_only_what_is_needed_is_downloaded(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {}
    folder = save_tiny(tmp_path / "downloaded", "gpt2")

    def download(name: str, *, revision: str | None, local_files_only: bool = False, allow_patterns: Any = None) -> str:
        if local_files_only:
            raise FileNotFoundError
        asked.update(name=name, revision=revision, patterns=sorted(allow_patterns))
        return str(folder)

    answering(
        monkeypatch,
        files("config.json", "model.safetensors", "pytorch_model.bin", "tokenizer.json", "onnx/model.onnx", "code.py",
              "README.md", "consolidated.safetensors", "original/model.safetensors"),
    )  # fmt: skip
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    lm = load("someone/model@v2")
    assert asked == {
        "name": "someone/model",
        "revision": COMMIT,
        "patterns": ["config.json", "model.safetensors", "tokenizer.json"],
    }
    assert lm.source.revision == COMMIT


def test_pickles_on_the_hub_are_not_even_downloaded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, files("config.json", "pytorch_model.bin"))
    with pytest.raises(ModelError, match=r"pickled weights only.*--trust-pickle"):
        load("someone/model")
    answering(monkeypatch, files("config.json", "model.Q4_1.gguf"))
    with pytest.raises(ModelError, match=r"no safetensors"):
        load("someone/model")


def test_two_revisions() -> None:
    with pytest.raises(UsageError, match="two revisions"):
        load("someone/model@a", revision="b")
