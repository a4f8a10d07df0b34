"""The twins' model cards: what was trained on what, and how good it is, measured on the files as they are stored."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polarlens.errors import UsageError
from polarlens.rows.store import write_json, written_whole
from polarlens.twins.corpus import Corpus
from polarlens.twins.recipe import NORMS, Norm, name_of

OWN = ("seed", "steps")  # of a further pair's recipe
TRAINING, EVALUATION, CARD = "training.json", "evaluation.json", "README.md"
AGREEMENT = "regular_plural_subject_verb_agreement_1"
CLASSES: Mapping[Norm, str] = {
    "layernorm": "`StableLmForCausalLM` with LayerNorm whose biases are frozen at 0",
    "rmsnorm": "`LlamaForCausalLM` with RMSNorm",
}


def write_cards(
    folder: Path, corpus: Corpus, pair_files: Sequence[str | Path], further: Sequence[str | Path] = ()
) -> None:
    """Evaluate both twins in `folder` and write `evaluation.json` there and a card into each twin's folder.

    further: folders of evaluated pairs from other seeds, told beside these. Raises UsageError when a folder holds no
    twins, when a further pair differs in more than its seed and its number of steps, or when other text than they were
    trained on is given: what they were trained on would then count as held out.
    """
    from polarlens.twins.evaluation import evaluate

    training = {norm: _training(folder / name_of(norm)) for norm in NORMS}
    pairs = [_further(Path(each), training[NORMS[0]]) for each in further]
    for norm, record in training.items():
        if record["text"]["sha256"] != corpus.digest:
            raise UsageError(
                "this is not the text that the twins were trained on, so nothing in it is known to be held out",
                where=str(folder / name_of(norm)),
                fix=f"Give the files {', '.join(record['text']['files'])}.",
            )
    found = evaluate(folder, corpus, pair_files) | ({"further_pairs": pairs} if pairs else {})
    write_json(folder / EVALUATION, found)
    for norm in NORMS:
        with written_whole(folder / name_of(norm) / CARD) as file:
            file.write(card(norm, training[norm], found).encode())


def _training(folder: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads((folder / TRAINING).read_text("utf-8"))
    except (OSError, ValueError):
        fix = "Give the folder that `polarlens twins train --out` wrote."
        raise UsageError("there is no twin here", where=str(folder), fix=fix) from None
    return record


def _further(folder: Path, training: Mapping[str, Any]) -> dict[str, Any]:
    """What the card tells of a pair from another seed: `seed`, `steps`, and its own `evaluation.json`."""
    other = _training(folder / name_of(NORMS[0]))
    same = [{key: value for key, value in one["recipe"].items() if key not in OWN} for one in (training, other)]
    if same[0] != same[1] or training["text"]["sha256"] != other["text"]["sha256"]:
        fix = "Give pairs that `polarlens twins train` made from the same text with another --seed."
        raise UsageError("this pair differs in more than its seed and its steps", where=str(folder), fix=fix)
    try:
        found = json.loads((folder / EVALUATION).read_text("utf-8"))
    except (OSError, ValueError):
        fix = "Run `polarlens twins evaluate` on it first."
        raise UsageError("this pair is not evaluated", where=str(folder), fix=fix) from None
    return {key: other["recipe"][key] for key in OWN} | {key: found[key] for key in ("held_out", "generated", "files")}


def card(norm: Norm, training: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """A twin's card as Markdown, with Hugging Face's metadata block."""
    recipe, text, held_out = training["recipe"], training["text"], found["held_out"]
    other = next(name for name in NORMS if name != norm)
    tokens = recipe["steps"] * recipe["batch"] * recipe["length"]
    low, high = held_out["difference"]["ci95"]
    where = f"whole books ({', '.join(held_out['files'])})" if held_out["files"] else "the last tenth of each file"
    tables = [
        _accuracies("generated: ", found["generated"], norm, other, by_norm=True),
        _accuracies("", found["files"], norm, other, by_norm=False),
    ]
    accuracies = "\n".join(filter(None, tables))
    packages = ", ".join(f"{name} {training['versions'][name]}" for name in ("torch", "transformers", "tokenizers"))
    return f"""---
license: apache-2.0
language: en
library_name: transformers
pipeline_tag: text-generation
---

# {name_of(norm)}

A small causal language model, {CLASSES[norm]}.
Its sibling {name_of(other)} has the same initial weights, tokenizer, batches in the same order, optimiser and schedule,
and differs in the norm alone: LayerNorm subtracts the mean, RMSNorm does not.
It exists to be measured; it knows little and should not be used to write.

## Recipe

- {recipe["n_layers"]} blocks of width {recipe["width"]}, {recipe["n_heads"]} heads, MLP {recipe["mlp_width"]},
  rotary positions, tied embeddings, norm eps {recipe["norm_eps"]:g}, context {recipe["length"]} tokens.
- Byte-level BPE of {recipe["vocabulary"]} entries; `<|bos|>` begins every text.
- {recipe["steps"]:,} steps of {recipe["batch"]} rows of {recipe["length"]} tokens ({tokens / 1e6:.1f} M tokens);
  {100 * recipe["generated"]:.0f} % of the rows are English generated by `polarlens.english`, none of it in what is
  bundled or held out; the rest is books.
- AdamW, peak learning rate {recipe["learning_rate"]:g} after {100 * recipe["warmup"]:.0f} % of the steps, then linearly
  to 0; betas {recipe["betas"][0]:g} and {recipe["betas"][1]:g}; weight decay {recipe["weight_decay"]:g} on matrices;
  gradients clipped at {recipe["clip"]:g}; float32, stored in float16; seed {recipe["seed"]}.
- {training["seconds"] / 60:.0f} minutes beside its sibling, {recipe["threads"]} thread each, {training["processor"]}
  processor; {packages}.
- Initial weights {training["initial_weights_sha256"]}, first 1,000 batches {training["first_1000_batches_sha256"]}:
  SHA-256 over trainable weights and over token rows, first 16 digits, equal for both siblings.

## Text

{len(text["files"])} public-domain files, digest {text["sha256"]}: {", ".join(text["files"])}.

Held out: {", ".join(text["held_out"]) or "the last tenth of the paragraphs of each file"}.

## Evaluation

Measured on the stored float16 weights in float32; 95 % intervals over rows, and over clusters of pairs.

| held-out loss, nats per token | {name_of(norm)} | {name_of(other)} |
|---|---|---|
| {held_out["rows"]:,} rows of {where} | {_nats(held_out["nll"][norm])} | {_nats(held_out["nll"][other])} |

LayerNorm minus RMSNorm: {held_out["difference"]["mean"]:+.4f} [{low:+.4f}, {high:+.4f}] nats per token, paired by row
({100 * held_out["relative_difference"]:+.2f} %).

| accuracy, % | pairs | {name_of(norm)} | {name_of(other)} |
|---|---|---|---|
{accuracies}
{_other_seeds(found.get("further_pairs", ()))}
The same numbers again, from these weights: `polarlens twins evaluate DIR --text PATH --pairs FILE`.
"""


def _nats(entry: Mapping[str, Any]) -> str:
    low, high = entry["ci95"]
    return f"{entry['mean']:.3f} [{low:.3f}, {high:.3f}]"


def _other_seeds(pairs: Sequence[Mapping[str, Any]]) -> str:
    """The section on pairs from other seeds; empty without any."""
    if not pairs:
        return ""
    lines = []
    for pair in pairs:
        held_out, generated, files = pair["held_out"], pair["generated"], pair["files"]
        low, high = held_out["difference"]["ci95"]
        shown = [generated[norm]["all subject-verb agreement"]["mean"] for norm in NORMS]
        shown += [files[AGREEMENT][norm]["mean"] for norm in NORMS] if AGREEMENT in files else []
        accuracies = [f"{a:.1f} / {b:.1f}" for a, b in zip(shown[::2], shown[1::2], strict=True)]
        lines.append(
            f"| {pair['seed']} | {pair['steps']:,} | {' / '.join(_nats(held_out['nll'][norm]) for norm in NORMS)} "
            f"| {held_out['difference']['mean']:+.4f} [{low:+.4f}, {high:+.4f}] | {' | '.join([*accuracies, ''][:2])} |"
        )
    rows = "\n".join(lines)
    return f"""
## Other seeds

Pairs trained on the same text from other seeds, not shipped; LayerNorm first. What differs between seeds tells how much
of a difference between the two norms may be the seed's.

| seed | steps | held-out nats per token | LayerNorm minus RMSNorm | generated agreement, % | BLiMP regular 1, % |
|---|---|---|---|---|---|
{rows}
"""


def _points(entry: Mapping[str, Any]) -> str:
    if entry["ci95"] is None:
        return f"{entry['mean']:.1f}"
    low, high = entry["ci95"]
    return f"{entry['mean']:.1f} [{low:.1f}, {high:.1f}]"


def _accuracies(before: str, found: Mapping[str, Any], norm: Norm, other: Norm, *, by_norm: bool) -> str:
    names = found[norm] if by_norm else found
    entries = {name: [found[n][name] if by_norm else found[name][n] for n in (norm, other)] for name in names}
    return "\n".join(
        f"| {before}{name.replace('_', ' ')} | {a['pairs']:,} | {_points(a)} | {_points(b)} |"
        for name, (a, b) in entries.items()
    )
