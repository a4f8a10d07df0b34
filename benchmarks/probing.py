"""All probes of a treebank: wall and CPU time per stage and peak memory.

    python benchmarks/probing.py MODEL --treebank FILE [--limit N] [--blocks 5] [--threads 2] [--json FILE]

The target for SmolLM2-135M and the test part of UD English-EWT (25,094 words) at five blocks is 4 minutes and 3 GB on
two cores. Prints accuracies of the parts of speech by block beside it.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import torch

import polarlens as pl
from polarlens.data import read_trees
from polarlens.models.tokens import resolve_bos
from polarlens.probing import Probes, align_trees, default_blocks
from polarlens.probing.extraction import clean_states, rows_of
from polarlens.probing.words import words_of
from polarlens.statistics.probing import probe_scores


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--treebank", required=True)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--blocks", help="comma-separated; five blocks and no embeddings by default")
    parser.add_argument("--poolings", default="last,mean")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    lm = pl.load(options.model)
    blocks = tuple(map(int, options.blocks.split(","))) if options.blocks else default_blocks(lm.n_layers)[1:]
    bos = resolve_bos(lm.tokenizer, "auto").id
    seconds, cpu, start = {}, {}, (time.perf_counter(), time.process_time())

    def lap(stage):
        nonlocal start
        now = (time.perf_counter(), time.process_time())
        seconds[stage], cpu[stage] = (round(b - a, 1) for a, b in zip(start, now, strict=True))
        start = now

    trees = read_trees([options.treebank], limit=options.limit)
    aligned = align_trees(trees.items, lm.tokenizer, bos, window=lm.window)
    words = words_of(aligned.items)
    lap("reading")
    states = clean_states(lm, aligned.items, blocks, options.poolings.split(","), has_bos=bos is not None)
    lap("states")
    probes = Probes(words)
    probes.fit(states)
    lap("fitting")
    rows = probes.score(rows_of(states, probes.parts["test"]))
    lap("scoring")
    scores = probe_scores(rows)
    lap("statistics")
    found = {
        "sentences": len(aligned.items),
        "words": len(words.form),
        "blocks": blocks,
        "wall_s": seconds,
        "cpu_s": cpu,
        "total_s": round(sum(seconds.values()), 1),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "unconverged": f"{probes.unconverged} of {2 * len(probes.fitted)}",
    }
    for name, value in found.items():
        print(f"{name:12} {value}")
    for score in scores:
        if score.named["metric"] in ("accuracy", "gain"):
            low, high = score.found.interval or (float("nan"), float("nan"))
            cell = " ".join(
                str(score.named[name]) for name in ("target", "metric", "pooling", "block", "representation")
            )
            print(f"{cell:50} {score.found.estimate.value:8.3f} [{low:.3f}, {high:.3f}]")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
