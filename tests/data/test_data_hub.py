"""Hub sets without a network: what is in the cache loads, what is not fails at once, and names are checked first."""

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polarlens.data import hub, read_pairs, read_texts
from polarlens.data.spec import DEFAULT_PAIR_SPECS, DEFAULT_TEXT_FILTER, DEFAULT_TEXT_SPEC, HubSet, parse
from polarlens.errors import UsageError

Cache = Callable[[str, str, dict[str, list[dict[str, Any]]]], None]

PAIRS = [
    {"sentence_good": "A b.", "sentence_bad": "A c.", "UID": "u", "pair_id": 0},
    {"sentence_good": "D e.", "sentence_bad": "D f.", "UID": "u", "pair_id": 1},
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """Put a set into a cache of its own, in the layout in which `datasets.load_dataset` leaves it there."""
    import datasets
    from datasets.arrow_writer import ArrowWriter

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)

    def put(name: str, config: str, splits: dict[str, list[dict[str, Any]]]) -> None:
        owner, short = name.split("/")
        folder = tmp_path / f"{owner}___{short}" / config / "0.0.0" / "0123abcd"
        folder.mkdir(parents=True)
        infos = {}
        for split, rows in splits.items():
            table = datasets.Dataset.from_list(rows)
            with ArrowWriter(features=table.features, path=str(folder / f"{short}-{split}.arrow")) as writer:
                for row in rows:
                    writer.write(row)
                examples, size = writer.finalize()
            infos[split] = datasets.SplitInfo(split, num_bytes=size, num_examples=examples, dataset_name=short)
        info = datasets.DatasetInfo(
            features=table.features,
            splits=datasets.splits.SplitDict(infos),
            builder_name="parquet",
            dataset_name=short,
            config_name=config,
            version="0.0.0",
        )
        info.write_to_directory(str(folder))

    return put


def test_specs() -> None:
    assert parse(DEFAULT_TEXT_SPEC) == HubSet("Salesforce/wikitext", "wikitext-103-raw-v1", "test")
    assert [parse(spec) for spec in DEFAULT_PAIR_SPECS] == [
        HubSet("nyu-mll/blimp", "regular_plural_subject_verb_agreement_1"),
        HubSet("nyu-mll/blimp", "irregular_plural_subject_verb_agreement_1"),
    ]
    assert DEFAULT_TEXT_FILTER == "notebook"
    assert parse("./hub:a/b:c") == Path("hub:a/b:c")


@pytest.mark.parametrize(
    "spec", ["hub:", "hub:a/b", "hub:json:x", "hub:a/b/c:x", "hub:a/b::test", "hub:a/b:c:d:e", "hub:a/b:"]
)
def test_names_that_are_none(spec: str) -> None:
    with pytest.raises(UsageError, match="not the name of a Hub set"):
        read_texts(spec)


def test_a_cached_set_loads_offline_with_its_only_split(cache: Cache) -> None:
    cache("nyu-mll/blimp", "agreement_1", {"train": PAIRS})
    dataset = read_pairs(["hub:nyu-mll/blimp:agreement_1"], limit=1)
    (pair,) = dataset.items
    assert (pair.good, pair.bad, pair.phenomenon, pair.line) == ("A b.", "A c.", "u", 1)
    rows = [{name: row[name] for name in ("UID", "sentence_bad", "sentence_good")} for row in PAIRS]
    assert dataset.sources == (
        {
            "spec": "hub:nyu-mll/blimp:agreement_1",
            "sha256": hashlib.sha256("".join(json.dumps(row) + "\n" for row in rows).encode()).hexdigest(),
            "rows": 2,
            "items": 1,
            "skipped": {"limit": 1},
        },
    )
    assert read_pairs(["hub:nyu-mll/blimp:agreement_1:train"]).items[0].item == pair.item


def test_a_split_is_chosen_by_name_when_there_are_several(cache: Cache) -> None:
    cache("Salesforce/wikitext", "raw", {"train": [{"text": "Train."}], "test": [{"text": ""}, {"text": " Test. \n"}]})
    dataset = read_texts("hub:Salesforce/wikitext:raw:test")
    assert [(item.text, item.line) for item in dataset.items] == [("Test.", 2)]
    assert dataset.sources[0]["skipped"] == {"blank": 1}
    with pytest.raises(UsageError, match=r"several splits \(test, train\).*hub:Salesforce/wikitext:raw:test"):
        read_texts("hub:Salesforce/wikitext:raw")
    with pytest.raises(UsageError, match=r"no split 'dev'\. Choose one of: test, train"):
        read_texts("hub:Salesforce/wikitext:raw:dev")


def test_rows_are_checked_as_lines_are(cache: Cache) -> None:
    cache("a/pairs", "c", {"train": [*PAIRS, {**PAIRS[0], "sentence_bad": " A b."}]})
    with pytest.raises(UsageError, match=r"hub:a/pairs:c, row 3: .* are the same sentence"):
        read_pairs(["hub:a/pairs:c"])
    cache(
        "a/spans", "c", {"train": [{"text": " abc", "positions": [[1, 2], [3, 4]]}, {"text": None, "positions": None}]}
    )
    with pytest.raises(UsageError, match="row 2: 'text' is None"):
        read_texts("hub:a/spans:c")
    cache("a/other", "c", {"train": [{"sentence": "A.", "label": 1}]})
    with pytest.raises(UsageError, match="no column that can be used; found: sentence, label"):
        read_texts("hub:a/other:c")


def test_spans_from_a_hub_set(cache: Cache) -> None:
    cache("a/spans", "c", {"train": [{"text": " abc", "positions": [[1, 2], [3, 4]]}]})
    assert read_texts("hub:a/spans:c").items[0].positions == ((0, 1), (2, 3))


def test_another_configuration_of_a_cached_set_is_not_taken_for_it(cache: Cache) -> None:
    cache("nyu-mll/blimp", "agreement_1", {"train": PAIRS})
    with pytest.raises(UsageError, match="cannot be reached"):
        read_pairs(["hub:nyu-mll/blimp:agreement_2"])


def test_offline_mode_names_the_file_options(cache: Cache) -> None:
    with pytest.raises(UsageError, match=r"offline mode is set.*--text FILE .*--pairs FILE"):
        read_texts(DEFAULT_TEXT_SPEC)


def without_network(endpoint: str, tmp_path: Path) -> str:
    """What a fresh process prints that reads the default texts, online as far as it knows, with this Hub."""
    code = (
        "from polarlens.data import read_texts\n"
        "from polarlens.data.spec import DEFAULT_TEXT_SPEC\n"
        "from polarlens.errors import UsageError\n"
        "try:\n    read_texts(DEFAULT_TEXT_SPEC)\n"
        "except UsageError as error:\n    print(error)\n"
    )
    hidden = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
    environment = {
        name: value for name, value in os.environ.items() if name not in hidden and "proxy" not in name.lower()
    }
    environment |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path)}
    # The libraries' own retries take 23 s to give up, so that a stop after 15 s tells them from the bounded wait.
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=15, check=True
    )
    assert done.stderr == ""
    return done.stdout


def test_a_refused_connection_fails_at_once(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound but not listening: a connection is refused
        said = without_network(f"http://127.0.0.1:{closed.getsockname()[1]}", tmp_path)
    assert re.search(r"cannot be reached \(ConnectError.*not in the local cache.*--text FILE .*--pairs FILE", said)


def test_a_hub_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = without_network(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
    assert re.search(r"cannot be reached \((no answer|TimeoutError|ReadTimeout).*--text FILE .*--pairs FILE", said)


@pytest.fixture
def reachable(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Hub that answers, with an empty cache."""
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda self, name, timeout: None)


@pytest.mark.usefixtures("reachable")
def test_a_set_is_downloaded_when_the_hub_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked = []

    def load(name: str, config: str) -> Any:
        asked.append((name, config))
        return datasets.DatasetDict(train=datasets.Dataset.from_list(PAIRS))

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert [pair.good for pair in read_pairs(["hub:nyu-mll/blimp:x"]).items] == ["A b.", "D e."]
    assert asked == [("nyu-mll/blimp", "x")]


@pytest.mark.usefixtures("reachable")
def test_what_the_loader_raises_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def load(name: str, config: str) -> Any:
        raise ValueError(f"BuilderConfig '{config}' not found. Available: ['a', 'b']\nand a second line")

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(
        UsageError, match=r"ValueError: BuilderConfig 'x' not found\. Available: \['a', 'b'\]\)"
    ) as caught:
        read_texts("hub:a/b:x")
    assert "second line" not in str(caught.value)


def test_a_name_that_the_hub_does_not_have(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError

    def refuse(self: object, name: str, timeout: float) -> None:
        raise HFValidationError(f"{name} is no name")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", refuse)
    with pytest.raises(UsageError, match="the Hub has no data set 'a b/c' that you may read"):
        read_texts("hub:a b/c:x")


def test_without_the_package_datasets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "datasets"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match="need the package datasets"):
        read_texts(DEFAULT_TEXT_SPEC)
    (tmp_path / "a.txt").write_text("One.")
    assert len(read_texts(str(tmp_path / "a.txt")).items) == 1


def test_the_digest_depends_on_every_row_and_their_order() -> None:
    rows: list[dict[str, object]] = [{"text": "a"}, {"text": "b"}]
    digests = {hub.digest(rows), hub.digest(rows[::-1]), hub.digest(rows[:1]), hub.digest([{"text": "ab"}])}
    assert len(digests) == 4
    assert hub.digest([{"text": "é", "UID": "x"}]) == hub.digest([{"UID": "x", "text": "é"}])
