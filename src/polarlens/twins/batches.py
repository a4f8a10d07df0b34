"""From documents to rows of tokens, and which rows make up which step: the same for both twins."""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polarlens.twins.corpus import Corpus
from polarlens.twins.generated import training_documents
from polarlens.twins.recipe import Recipe

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Rows = NDArray[np.uint16]
_AT_A_TIME = 1_000


def rows_of(documents: Iterable[str], tokenizer: "PreTrainedTokenizerFast", length: int) -> Iterator[Rows]:
    """Rows (length,): BOS, then the next tokens of the stream BOS, document, BOS, document, ...; no token is lost."""
    bos = tokenizer.bos_token_id
    stream: list[int] = []
    documents = iter(documents)
    while some := list(islice(documents, _AT_A_TIME)):
        for ids in tokenizer(some, add_special_tokens=False, verbose=False)["input_ids"]:
            stream += [bos, *ids]
        whole = len(stream) // (length - 1)
        for n in range(whole):
            yield np.array([bos, *stream[n * (length - 1) : (n + 1) * (length - 1)]], dtype=np.uint16)
        stream = stream[whole * (length - 1) :]


def training_rows(corpus: Corpus, tokenizer: "PreTrainedTokenizerFast", recipe: Recipe) -> Rows:
    """All rows of a training run in the order of training, (steps · batch, length).

    Book rows are shuffled, and shuffled anew when all have been used; generated rows are never repeated. Every batch
    holds both in the recipe's proportion on average.
    """
    total = recipe.steps * recipe.batch
    generated = round(total * recipe.generated)
    rng = np.random.default_rng([recipe.seed, 0])
    books = np.stack(list(rows_of(corpus.training, tokenizer, recipe.length)))
    epochs = -(-(total - generated) // len(books))
    order = np.concatenate([rng.permutation(len(books)) for _ in range(epochs)])[: total - generated]
    made = np.stack(list(islice(rows_of(training_documents(recipe.seed), tokenizer, recipe.length), generated)))
    kinds = rng.permutation(np.repeat([True, False], [generated, total - generated]))
    rows = np.empty((total, recipe.length), dtype=np.uint16)
    rows[kinds], rows[~kinds] = made, books[order]
    return rows


def order_digest(rows: Rows, batch: int, steps: int = 1_000) -> str:
    """SHA-256 over the first `steps` batches, 16 hex digits."""
    return hashlib.sha256(np.ascontiguousarray(rows[: steps * batch]).tobytes()).hexdigest()[:16]
