"""How good the twins are: loss on held-out books, accuracy on held-out generated pairs and on files of pairs."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from polarlens.data import Pair, read_pairs
from polarlens.data.items import identity
from polarlens.engine.batching import batches
from polarlens.engine.conditions import Protocol
from polarlens.engine.encoding import encode_pairs
from polarlens.engine.engine import Engine
from polarlens.english import MinimalPair
from polarlens.models import load
from polarlens.models.tokens import resolve_bos
from polarlens.statistics.intervals import Array, Estimate, as_list, clustered_mean, moments, on_the_scale
from polarlens.twins.batches import Rows, rows_of
from polarlens.twins.corpus import Corpus
from polarlens.twins.generated import held_out_pairs
from polarlens.twins.recipe import NORMS, Norm, name_of

if TYPE_CHECKING:
    from polarlens.models import LanguageModel

HELD_OUT_ROWS = 1_000
SUBJECT_VERB = ("regular", "irregular", "agreement")  # how the names of these phenomena begin
_ROWS_AT_ONCE, _PAIR_TOKENS = 16, 4_096


def evaluate(folder: Path, corpus: Corpus, pair_files: Sequence[str | Path]) -> dict[str, Any]:
    """Evaluate both twins in `folder` as they are stored, in float32.

    Loss: nats per token over at most 1,000 rows of the held-out text, spread evenly, with BOS before each row; 95 %
    intervals over rows. Accuracy: points, ties half, intervals over clusters. The difference of the losses is paired.
    """
    models: dict[Norm, LanguageModel] = {norm: load(folder / name_of(norm)) for norm in NORMS}
    first = models[NORMS[0]]
    rows = _spread(list(rows_of(corpus.held_out, first.tokenizer, first.window or 128)), HELD_OUT_ROWS)
    losses = {norm: held_out_losses(lm, rows) for norm, lm in models.items()}
    difference = clustered_mean(losses["layernorm"] - losses["rmsnorm"])
    means = {norm: float(values.mean()) for norm, values in losses.items()}
    return {
        "held_out": {
            "files": list(corpus.held_out_files),
            "rows": len(rows),
            "tokens": int(rows.shape[0] * (rows.shape[1] - 1)),
            "nll": {norm: _shown(clustered_mean(values)) for norm, values in losses.items()},
            "difference": _shown(difference),
            "relative_difference": (means["layernorm"] - means["rmsnorm"]) / means["rmsnorm"],
        },
        "generated": {norm: generated_accuracy(lm, held_out_pairs()) for norm, lm in models.items()},
        "files": {
            Path(file).stem: {norm: pair_accuracy(lm, read_pairs([str(file)]).items) for norm, lm in models.items()}
            for file in pair_files
        },
    }


def _spread(rows: Sequence[Rows], most: int) -> Rows:
    """At most `most` rows, evenly spread over all."""
    return np.stack([rows[i] for i in np.linspace(0, len(rows) - 1, min(most, len(rows))).round().astype(int)])


def held_out_losses(lm: "LanguageModel", rows: Rows) -> Array:
    """(R,) mean nll per token of each row (R, T), nats."""
    found = []
    with torch.no_grad():
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            ids = torch.from_numpy(rows[start : start + _ROWS_AT_ONCE].astype(np.int64))
            logits = lm.hf(input_ids=ids, use_cache=False).logits[:, :-1]
            found.append(cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none").double().mean(-1))
    return torch.cat(found).numpy()


def margins(lm: "LanguageModel", pairs: Iterable[Pair]) -> dict[str, float]:
    """Item -> log P(good) - log P(bad) of whole sentences after BOS, nats."""
    bos = resolve_bos(lm.tokenizer, "auto")
    encoding = encode_pairs(tuple(pairs), lm.tokenizer, bos.id, window=lm.window)
    engine = Engine(lm, Protocol((lm.n_layers - 1,), "relative", {}), kl=False)
    found: dict[str, float] = {}
    for batch in batches(encoding.items, _PAIR_TOKENS, has_bos=bos.id is not None):
        nll = batch.sum_rows(engine.clean(batch).nll).numpy()
        found |= {e.item.item: float(nll[2 * k + 1] - nll[2 * k]) for k, e in enumerate(batch.items)}
    return found


def pair_accuracy(lm: "LanguageModel", pairs: Sequence[Pair]) -> dict[str, Any]:
    """Accuracy in points over pairs, with an interval over clusters where the pairs have them."""
    of = margins(lm, pairs)
    kept = [pair for pair in pairs if pair.item in of]
    points = [50.0 * (1 + np.sign(of[pair.item])) for pair in kept]
    found = moments([points], None, [pair.cluster for pair in kept], bounded=True)
    accuracy = found.linear(1.0)
    return {"mean": accuracy.value, "ci95": as_list(on_the_scale(accuracy.interval())), "pairs": len(kept)}


def generated_accuracy(lm: "LanguageModel", made: Sequence[MinimalPair]) -> dict[str, dict[str, Any]]:
    """Accuracy by phenomenon; phenomena with an attractor also for attractors of the opposite number alone."""
    groups: dict[str, list[Pair]] = {}
    for line, one in enumerate(made, 1):
        pair = Pair(one.good, one.bad, identity(f"{one.good}\n{one.bad}"), one.cluster, "generated", line)
        groups.setdefault(one.phenomenon, []).append(pair)
        if one.attractor_number not in (None, one.number):
            groups.setdefault(f"{one.phenomenon}, opposite attractor", []).append(pair)
            groups.setdefault("all with an opposite attractor", []).append(pair)
        if one.phenomenon.startswith(SUBJECT_VERB):
            groups.setdefault("all subject-verb agreement", []).append(pair)
        groups.setdefault("all", []).append(pair)
    return {name: pair_accuracy(lm, pairs) for name, pairs in sorted(groups.items())}


def _shown(estimate: Estimate) -> dict[str, Any]:
    interval: Mapping[str, Any] = {"ci95": as_list(estimate.interval())}
    return {"mean": estimate.value, **interval}
