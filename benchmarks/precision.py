"""Forward passes that the loss ratio needs: antithetic draws against plain ones, from measured variances.

    python benchmarks/precision.py MODEL --text FILE [--lines 12] [--seeds 4] [--delta 0.01] [--layers middle]

Runs both arms on every line with `seeds` antithetic draws (a relative delta, policy `matched`), takes the variance of
an item's influence on R = D_angular / D_magnitude apart into items and draws, and prints how many forward passes a
half-width of 10 % of R takes with the best number of draws per item and with 5, and the factor between the two kinds.
A 90 % bootstrap interval over the lines stands beside the factor: with few lines it is wide.
"""

import argparse
from itertools import product

import numpy as np

import polarlens as pl
from polarlens.data import read_texts
from polarlens.engine.batching import batches
from polarlens.engine.conditions import Condition, Protocol
from polarlens.engine.encoding import encode_texts
from polarlens.engine.engine import Engine
from polarlens.models.tokens import resolve_bos
from polarlens.perturbation import MATCHED
from polarlens.protocol.bench import STACK
from polarlens.protocol.layers import parse_layers
from polarlens.protocol.prepared import BATCH_TOKENS
from polarlens.statistics.precision import components, design

ARMS, SIGNS = ("angular", "magnitude"), (1, -1)


def measured(lm, items, layers, delta, seeds):
    """(2, I, J, 2) summed loss damages, nats: arms, items, seeds, antithetic members."""
    engine = Engine(lm, Protocol(layers, "relative", {"p": MATCHED}), kl=False)
    wanted = {
        Condition("p", "all", arm, delta, seed, sign): (a, seed, s)
        for (a, arm), seed, (s, sign) in product(enumerate(ARMS), range(seeds), enumerate(SIGNS))
    }
    parts = []
    for batch in batches(items, BATCH_TOKENS // STACK, has_bos=True):
        clean = engine.clean(batch)
        base = batch.sum_rows(clean.nll).numpy()
        part = np.empty((2, len(base), seeds, 2))
        for condition, outcome in engine.perturbed(batch, clean, list(wanted), BATCH_TOKENS):
            a, seed, s = wanted[condition]
            part[a, :, seed, s] = outcome.nll - base
        parts.append(part)
    return np.concatenate(parts, axis=1)


def factor(members, draws=None):
    plain, antithetic = components(members)
    return design(plain, draws=draws).passes / design(antithetic, draws=draws).passes


def bootstrap(members, draws, resamples=1000):
    rng, n, found = np.random.default_rng(0), members.shape[1], []
    for _ in range(resamples):
        chosen = members[:, rng.integers(0, n, n)]
        if (chosen.mean(axis=(1, 2, 3)) > 0).all():
            found.append(factor(chosen, draws))
    return np.quantile(found, [0.05, 0.95]) if found else (np.nan, np.nan)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--text", required=True)
    parser.add_argument("--lines", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--delta", type=float, default=0.01)
    parser.add_argument("--layers", default="middle")
    options = parser.parse_args()

    lm = pl.load(options.model)
    (layers,) = parse_layers(options.layers, lm.n_layers)
    bos = resolve_bos(lm.tokenizer, "auto").id
    texts = read_texts(options.text, text_filter="notebook", limit=options.lines).items
    items = encode_texts(texts, lm.tokenizer, bos, max_tokens=64, window=lm.window).items
    members = measured(lm, items, layers, options.delta, options.seeds)

    plain, antithetic = components(members)
    odd = (members[..., 0] - members[..., 1]) / 2
    print(
        f"{len(items)} lines, {options.seeds} seeds, blocks {layers[0]}-{layers[-1]}, relative delta {options.delta:g}"
    )
    print(f"  ratio R {plain.ratio:.3f}; variance of an item's influence on it: between items {plain.item:.3g}")
    for a, arm in enumerate(ARMS):
        even = members[a].mean(-1)
        within = even.var(axis=1, ddof=1).mean()
        plain_draw = within + np.square(odd[a]).mean()
        print(f"  {arm}: variance per forward pass falls {plain_draw / (2 * within):.1f} times with antithetic draws")
    for name, c in (("plain", plain), ("antithetic", antithetic)):
        best, five = design(c), design(c, draws=5)
        print(
            f"  {name:<10} between draws {c.draw:.3g}; for a half-width of 10 % of R: {best.passes} passes "
            f"({best.items} items x {best.draws} draws), with 5 draws {five.passes} ({five.items} items)"
        )
    for name, draws in (("the best number of draws", None), ("5 draws", 5)):
        low, high = bootstrap(members, draws)
        print(
            f"  with {name}: {factor(members, draws):.1f} times fewer passes (90 % bootstrap {low:.1f} to {high:.1f})"
        )


if __name__ == "__main__":
    main()
