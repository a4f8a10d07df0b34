"""The sweep against plain hooks: a full forward pass per condition, one text at a time. Both in one process, in turn.

    python benchmarks/sweep.py MODEL --text FILE [--lines 16] [--layers 8-15] [--rounds 3] [--memory] [--json FILE]

Both contenders compute the same numbers (checked to 1e-4 relative): next-token nll per text, clean and under two arms,
three relative deltas and three seeds, no KL. Prints the ratio of the times, round by round and of the medians, the
engine's share of time per stage, what KL adds, and with --memory peak memory as the number of conditions grows.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import polarlens as pl
from polarlens.data import read_texts
from polarlens.engine.batching import batches
from polarlens.engine.conditions import Condition, Protocol
from polarlens.engine.encoding import encode_texts
from polarlens.engine.engine import Engine
from polarlens.models.tokens import resolve_bos
from polarlens.perturbation import ARMS, PAPER, coins, displace, gaussian, norms
from polarlens.protocol.bench import STACK
from polarlens.protocol.layers import parse_layers
from polarlens.protocol.prepared import BATCH_TOKENS

DELTAS = (0.05, 0.1, 0.2)


def conditions(seeds):
    return [Condition("p", "all", arm, delta, seed, None) for seed in range(seeds) for arm in ARMS for delta in DELTAS]


def nll_of(lm, ids):
    with torch.no_grad():
        logits = lm.hf(input_ids=ids, use_cache=False).logits[0, :-1]
    return -torch.log_softmax(logits, -1).gather(-1, ids[0, 1:, None]).double().sum().item()


def plain_hooks(lm, items, layers, wanted):
    """One text and one condition at a time through the whole model, the perturbation in forward hooks."""
    found = {}
    for encoded in items:
        ids = torch.tensor([encoded.sequences[0]])
        found[encoded.item.item, None] = nll_of(lm, ids)
        for c in wanted:

            def perturb(hidden, layer, c=c, encoded=encoded):
                if c.arm == "magnitude":
                    drawn = coins(PAPER, c.arm, c.seed, layer, encoded.noise)
                else:
                    drawn = gaussian(PAPER, c.arm, c.seed, layer, encoded.noise, lm.width)
                draw = torch.from_numpy(drawn)
                return displace(hidden, arm=c.arm, policy=PAPER, draw=draw, delta=c.delta * norms(hidden)).state

            def hook(_module, _args, output, layer, perturb=perturb):
                if isinstance(output, tuple):
                    return (perturb(output[0], layer), *output[1:])
                return perturb(output, layer)

            handles = [
                lm.blocks[n].register_forward_hook(lambda m, a, o, n=n, hook=hook: hook(m, a, o, n)) for n in layers
            ]
            try:
                found[encoded.item.item, c] = nll_of(lm, ids)
            finally:
                for handle in handles:
                    handle.remove()
    return found


def engine_sweep(lm, items, layers, wanted, *, kl=False, tokens=BATCH_TOKENS, seconds=None):
    engine = Engine(lm, Protocol(layers, "relative", {"p": PAPER}), kl=kl)
    found = {}
    for batch in batches(items, tokens // STACK, has_bos=True):
        clean = engine.clean(batch)
        for encoded, nll in zip(batch.items, batch.sum_rows(clean.nll).tolist(), strict=True):
            found[encoded.item.item, None] = nll
        for c, outcome in engine.perturbed(batch, clean, wanted, tokens):
            for encoded, nll in zip(batch.items, outcome.nll, strict=True):
                found[encoded.item.item, c] = nll
    if seconds is not None:
        seconds.update(engine.seconds)
    return found


def timed(function, *args, **options):
    start = time.perf_counter()
    result = function(*args, **options)
    return time.perf_counter() - start, result


def peak_memory(arguments, seeds):
    """Peak memory in MiB of a process of its own that runs the engine with 6 conditions per seed."""
    command = [sys.executable, __file__, *arguments, "--only-engine", str(seeds)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--text", required=True)
    parser.add_argument("--lines", type=int, default=16)
    parser.add_argument("--layers", default="8-15")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="also measure peak memory against conditions (minutes)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only-engine", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()

    lm = pl.load(options.model)
    (layers,) = parse_layers(options.layers, lm.n_layers)
    bos = resolve_bos(lm.tokenizer, "auto").id
    texts = read_texts(options.text, text_filter="notebook", limit=options.lines).items
    items = encode_texts(texts, lm.tokenizer, bos, max_tokens=64, window=lm.window).items
    if options.only_engine:
        # Few texts: a batch and its stack are as large as ever, only fewer of them are run.
        engine_sweep(lm, items[:6], layers, conditions(options.only_engine), kl=True)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return

    wanted = conditions(3)
    times = {"plain": [], "engine": [], "engine with KL": []}
    seconds = {}
    for _ in range(options.rounds):
        taken, plain = timed(plain_hooks, lm, items, layers, wanted)
        times["plain"].append(taken)
        taken, ours = timed(engine_sweep, lm, items, layers, wanted, seconds=seconds)
        times["engine"].append(taken)
        times["engine with KL"].append(timed(engine_sweep, lm, items, layers, wanted, kl=True)[0])
    assert ours.keys() == plain.keys()
    worst = max(abs(ours[key] / plain[key] - 1) for key in plain)
    if worst > 1e-4:
        sys.exit(f"the contenders disagree by {worst:.1e} relative")
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratio = medians["plain"] / medians["engine"]
    arguments = [a for a in sys.argv[1:] if a != "--memory" and not a.startswith("--json")]
    memory = {6 * seeds: peak_memory(arguments, seeds) for seeds in (2, 6, 18)} if options.memory else {}

    sizes = f"{len(items)} texts, {len(wanted)} conditions and a clean pass, blocks {options.layers}"
    print(f"{sizes}, {torch.get_num_threads()} threads")
    for name, value in medians.items():
        print(f"  {name:<16} {value:7.2f} s (median of {options.rounds}: {', '.join(f'{t:.2f}' for t in times[name])})")
    rounds = ", ".join(f"{a / b:.2f}" for a, b in zip(times["plain"], times["engine"], strict=True))
    print(f"  plain / engine = {ratio:.2f} (rounds: {rounds}); largest relative difference of an nll {worst:.1e}")
    total = sum(seconds.values())
    print("  engine, share of time: " + ", ".join(f"{name} {100 * s / total:.1f} %" for name, s in seconds.items()))
    for n, mib in memory.items():
        print(f"  peak memory {mib:.0f} MiB at {n} conditions")
    if options.json:
        document = {"medians_s": medians, "times_s": times, "ratio": ratio, "stages_s": seconds, "peak_mib": memory}
        options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
