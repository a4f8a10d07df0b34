"""A task of a run: its items as token ids, and where they came from."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from polarlens.data import Dataset, Pair, Text, Tree, read_pairs, read_texts, read_trees
from polarlens.engine.batching import by_length
from polarlens.engine.encoding import Encoded, Encoding, encode_pairs, encode_texts
from polarlens.errors import UsageError
from polarlens.protocol.config import RunConfig, Task, sources
from polarlens.protocol.plan import ItemKey

if TYPE_CHECKING:
    from polarlens.models import LanguageModel
    from polarlens.models.tokens import BosPolicy
    from polarlens.probing import AlignedTrees


@dataclass(frozen=True)
class Read:
    """The data of a run before a model is there; None where a task does not run."""

    texts: Dataset[Text] | None
    pairs: Dataset[Pair] | None
    trees: Dataset[Tree] | None


@dataclass(frozen=True)
class TaskData:
    """One task's items for one model. aligned: of the trees, whose words have tokens."""

    task: Task
    encoding: Encoding
    sources: tuple[dict[str, Any], ...]
    has_bos: bool
    aligned: "AlignedTrees | None" = None

    @cached_property
    def by_key(self) -> dict[ItemKey, Encoded]:
        """The items by (dataset, item)."""
        return {(encoded.item.dataset, encoded.item.item): encoded for encoded in self.encoding.items}

    @property
    def keys(self) -> tuple[ItemKey, ...]:
        """The items' keys, longest item first."""
        return tuple((e.item.dataset, e.item.item) for e in by_length(self.encoding.items))


def read_data(config: RunConfig) -> Read:
    """Read what the configuration names, so that bad data is found before a model is loaded."""
    asked = sources(config)
    trees = read_trees([asked.treebank], limit=asked.treebank_limit) if asked.treebank else None
    texts = (
        read_texts(asked.text, text_filter=config.text_filter or "none", limit=asked.text_limit) if asked.text else None
    )
    pairs = read_pairs(asked.pairs, limit=asked.pairs_limit) if asked.pairs else None
    return Read(texts, pairs, trees)


def encode_data(read: Read, config: RunConfig, lm: "LanguageModel", bos: "BosPolicy") -> list[TaskData]:
    """Token ids of every task that has data. Raises UsageError when a task is left without items.

    So it does where no probe can be trained on the trees.
    """
    tasks = []
    if read.texts is not None:
        encoding = encode_texts(read.texts.items, lm.tokenizer, bos.id, max_tokens=config.max_tokens, window=lm.window)
        tasks.append(TaskData("loss", encoding, read.texts.sources, bos.id is not None))
    if read.pairs is not None:
        encoding = encode_pairs(read.pairs.items, lm.tokenizer, bos.id, window=lm.window)
        tasks.append(TaskData("pairs", encoding, read.pairs.sources, bos.id is not None))
    if read.trees is not None:
        from polarlens.probing import align_trees, check_trees

        aligned = align_trees(read.trees.items, lm.tokenizer, bos.id, window=lm.window)
        encoding = Encoding(tuple(tree.encoded for tree in aligned.items), aligned.skipped)
        tasks.append(TaskData("trees", encoding, read.trees.sources, bos.id is not None, aligned))
    for task in tasks:
        if not task.encoding.items:
            reasons = ", ".join(f"{n} {why}" for why, n in task.encoding.skipped.items()) or "there were none"
            raise UsageError(
                f"no item of the {task.task} task can be used: {reasons}",
                where=", ".join(str(source["spec"]) for source in task.sources),
                fix="Give other data, or a model with a longer window.",
            )
        if task.aligned is not None:
            check_trees(task.aligned)
    return tasks
