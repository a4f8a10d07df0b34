"""Repair against plain hooks: a full forward pass per condition and repair, one text at a time. Both in one process.

    python benchmarks/repair.py MODEL --text FILE [--lines 100] [--seeds 5] [--layers 8-15] [--rounds 1] [--json FILE]

All repairs of blocks above the first perturbed one at one relative delta, under two arms. Both contenders compute the
same numbers (checked to 1e-4 relative): next-token nll per text, clean, perturbed, and perturbed under each repair.
Prints the ratio of the times, and the peak memory of the process after the engine and after the plain hooks.
"""

import argparse
import json
import resource
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

import torch

import polarlens as pl
from polarlens.data import read_texts
from polarlens.engine.batching import batches
from polarlens.engine.conditions import Condition, Protocol
from polarlens.engine.encoding import encode_texts
from polarlens.engine.engine import Engine
from polarlens.engine.fitting import fitting
from polarlens.engine.repair import REPAIRS, clean_activations, default_layers, planned, repaired
from polarlens.models import ATTENTION, MLP, PRE_ATTENTION_NORM, PRE_MLP_NORM
from polarlens.models.attention import apply_weights, attention_by, weights_of
from polarlens.models.tokens import resolve_bos
from polarlens.perturbation import ARMS, PAPER, coins, displace, gaussian, norms
from polarlens.protocol.bench import STACK
from polarlens.protocol.layers import parse_layers
from polarlens.protocol.prepared import BATCH_TOKENS
from sweep import nll_of, timed

DELTA = 0.1
OUTPUTS = {
    "attention": (ATTENTION,),
    "mlp": (MLP,),
    "attention+mlp": (ATTENTION, MLP),
    "norm": (PRE_ATTENTION_NORM, PRE_MLP_NORM),
}
NORMS = (PRE_ATTENTION_NORM, PRE_MLP_NORM)


def first(output):
    return output[0] if isinstance(output, tuple) else output


def put(output, value):
    return (value, *output[1:]) if isinstance(output, tuple) else value


def statistic(lm, x, eps):
    x = x.double()
    x = x - x.mean(-1, keepdim=True) if lm.norm_kind == "layernorm" else x
    return (x.square().mean(-1, keepdim=True) + eps).sqrt()


class Plain:
    """One text at a time through the whole model: plain hooks record the clean run and put parts of it back."""

    def __init__(self, lm, layers, repair_layers):
        self.lm, self.layers, self.repair_layers = lm, layers, repair_layers
        self.blocks = [lm.anatomy.blocks[n] for n in repair_layers]
        scaled = [block.source(site) for block in self.blocks for site in NORMS]
        self.scaled = {"norm-scale": scaled, "final-norm-scale": [lm.anatomy.final_norm]}
        eps = (getattr(lm.anatomy.final_norm, name, None) for name in ("eps", "variance_epsilon"))
        self.eps = next(value for value in eps if value is not None)

    def clean(self, ids):
        self.outputs, self.scales, self.heads = {}, {}, {}
        with ExitStack() as hooks:
            for block in self.blocks:
                for site in (ATTENTION, MLP, *NORMS):
                    keep = lambda m, a, out: self.outputs.update({m: first(out).clone()})  # noqa: E731
                    hooks.callback(block.source(site).register_forward_hook(keep).remove)
            for norm in (n for group in self.scaled.values() for n in group):
                keep = lambda m, args, out: self.scales.update({m: statistic(self.lm, args[0], self.eps)})  # noqa: E731
                hooks.callback(norm.register_forward_hook(keep).remove)
            nll = nll_of(self.lm, ids)

        def record(module, query, key, value, mask, **settings):
            known = {name: settings.get(name) for name in ("scaling", "softcap")}
            weights = weights_of(module, query, key, mask, **known)
            self.heads[module.layer_idx] = (weights, value)
            return apply_weights(weights, value), weights

        with attention_by(self.lm.hf, record):
            nll_of(self.lm, ids)
        return nll

    def dirty(self, ids, noise, c, repair):
        hooks = ExitStack()
        for n in self.layers:

            def move(_module, _args, output, n=n):
                drawn = (
                    coins(PAPER, c.arm, c.seed, n, noise)
                    if c.arm == "magnitude"
                    else gaussian(PAPER, c.arm, c.seed, n, noise, self.lm.width)
                )
                h = first(output)
                moved = displace(h, arm=c.arm, policy=PAPER, draw=torch.from_numpy(drawn), delta=DELTA * norms(h))
                return put(output, moved.state)

            hooks.callback(self.lm.blocks[n].register_forward_hook(move).remove)
        for block in self.blocks:
            for site in OUTPUTS.get(repair, ()):
                restore = lambda m, a, out: put(out, self.outputs[m].clone())  # noqa: E731
                hooks.callback(block.source(site).register_forward_hook(restore).remove)
        for norm in self.scaled.get(repair, ()):

            def rescale(module, args, output):
                ratio = (statistic(self.lm, args[0], self.eps) / self.scales[module]).to(output.dtype)
                bias = getattr(module, "bias", None)
                bias = 0.0 if bias is None else bias
                return bias + (output - bias) * ratio

            hooks.callback(norm.register_forward_hook(rescale).remove)
        if repair and repair.startswith("attention-"):

            def attend(module, query, key, value, mask, **settings):
                known = {name: settings.get(name) for name in ("scaling", "softcap")}
                weights = weights_of(module, query, key, mask, **known)
                if module.layer_idx in self.repair_layers:
                    weights = self.heads[module.layer_idx][0] if "pattern" in repair else weights
                    value = self.heads[module.layer_idx][1] if "values" in repair else value
                return apply_weights(weights, value), weights

            hooks.enter_context(attention_by(self.lm.hf, attend))
        with hooks:
            return nll_of(self.lm, ids)


def plain_hooks(lm, items, layers, repair_layers, wanted):
    plain, found = Plain(lm, layers, repair_layers), {}
    for encoded in items:
        ids = torch.tensor([encoded.sequences[0]])
        found[encoded.item.item, None, None] = plain.clean(ids)
        for c in wanted:
            for repair in (None, *REPAIRS):
                found[encoded.item.item, c, repair] = plain.dirty(ids, encoded.noise, c, repair)
    return found


def engine_repair(lm, items, layers, repair_layers, wanted):
    engine = Engine(lm, Protocol(layers, "relative", {"p": PAPER}), kl=False)
    plans = [planned(name, repair_layers, lm.anatomy, layers) for name in REPAIRS]
    found = {}

    def run(batch, tokens):
        clean, kept = clean_activations(engine, batch, plans)
        rows = [(None, None, batch.sum_rows(clean.nll).tolist())]
        for c, repair, outcome in repaired(engine, batch, clean, kept, wanted, plans, tokens):
            rows.append((c, repair.name if repair else None, outcome.nll.tolist()))
        return rows

    for whole in batches(items, BATCH_TOKENS // STACK, has_bos=True):
        for batch, rows in fitting(whole, BATCH_TOKENS, run):
            for c, repair, values in rows:
                for encoded, nll in zip(batch.items, values, strict=True):
                    found[encoded.item.item, c, repair] = nll
    return found


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--text", required=True)
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--layers", default="8-15")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    lm = pl.load(options.model)
    (layers,) = parse_layers(options.layers, lm.n_layers)
    repair_layers = default_layers(layers, lm.n_layers)
    bos = resolve_bos(lm.tokenizer, "auto").id
    texts = read_texts(options.text, text_filter="notebook", limit=options.lines).items
    items = encode_texts(texts, lm.tokenizer, bos, max_tokens=64, window=lm.window).items
    wanted = [Condition("p", "all", arm, DELTA, seed, None) for seed in range(options.seeds) for arm in ARMS]

    times, memory = {"engine": [], "plain": []}, {"loaded": peak_mib()}
    for _ in range(options.rounds):
        taken, ours = timed(engine_repair, lm, items, layers, repair_layers, wanted)
        times["engine"].append(taken)
        memory.setdefault("engine", peak_mib())  # before plain hooks run for the first time
        taken, plain = timed(plain_hooks, lm, items, layers, repair_layers, wanted)
        times["plain"].append(taken)
    assert ours.keys() == plain.keys()
    worst = max(abs(ours[key] / plain[key] - 1) for key in plain)
    if worst > 1e-4:
        sys.exit(f"the contenders disagree by {worst:.1e} relative")
    memory["plain"] = peak_mib()
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratio = medians["plain"] / medians["engine"]
    print(
        f"{len(items)} texts, {len(wanted)} conditions, {len(REPAIRS)} repairs and none, blocks {options.layers} "
        f"perturbed, {repair_layers[0]}-{repair_layers[-1]} repaired, {torch.get_num_threads()} threads"
    )
    for name, value in medians.items():
        print(f"  {name:<7} {value:8.2f} s (median of {options.rounds}: {', '.join(f'{t:.2f}' for t in times[name])})")
    print(f"  plain / engine = {ratio:.2f}; largest relative difference of an nll {worst:.1e}")
    print("  peak memory " + ", ".join(f"{name} {mib:.0f} MiB" for name, mib in memory.items()))
    if options.json:
        document = {"medians_s": medians, "times_s": times, "ratio": ratio, "peak_mib": memory, "worst": worst}
        options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
