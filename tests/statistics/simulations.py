"""Simulated studies with a known truth: how often intervals cover it and how often a verdict errs.

`python tests/statistics/simulations.py [STUDIES]` prints the tables (10,000 studies by default).
"""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from polarlens.statistics.amplification import exponential, log_amplification, log_amplification_ratio
from polarlens.statistics.bootstrap import bca
from polarlens.statistics.intervals import moments
from polarlens.statistics.kinds import Bands, Sides, classify, overall
from polarlens.statistics.precision import look, rounds
from polarlens.statistics.ratio import ratio, ratio_interval
from polarlens.statistics.recovery import recovery, recovery_difference
from polarlens.statistics.shapley import split

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

SHAPES: dict[str, Draw] = {  # positive item effects with mean 1
    "exponential": lambda rng, size: rng.exponential(1.0, size),
    "lognormal": lambda rng, size: rng.lognormal(-0.5, 1.0, size),
}
# items have an effect of their own that both arms share in part, so that pairing matters
ANGULAR, MAGNITUDE = 2.0, 1.0


@dataclass
class Coverage:
    """Shares of studies whose 95 % interval holds the truth; `refused`: the share of undefined ratios."""

    mean: float
    difference: float
    ratio: float
    refused: float
    bca_mean: float


def damages(rng: np.random.Generator, shape: str, studies: int, n: int, draws: int = 5) -> np.ndarray:
    """(studies, 2, n) item averages over draws of SD 1; true means 2 (angular) and 1 (magnitude)."""
    common = SHAPES[shape](rng, (studies, n))
    own = SHAPES[shape](rng, (studies, 2, n))
    truth = np.array([ANGULAR, MAGNITUDE])[:, None]
    item = truth * (0.5 * common[:, None] + 0.5 * own)
    return item + rng.standard_normal((studies, 2, n)) / np.sqrt(draws)


def plain(rng: np.random.Generator, shape: str, studies: int, n: int, draws: int = 5) -> np.ndarray:
    """(studies, 2, n): as `damages`, with item effects of the full skew, independent between the arms."""
    item = np.array([ANGULAR, MAGNITUDE])[:, None] * SHAPES[shape](rng, (studies, 2, n))
    return item + rng.standard_normal((studies, 2, n)) / np.sqrt(draws)


def coverage(
    shape: str,
    n: int,
    studies: int,
    seed: int = 0,
    model: Callable[..., np.ndarray] = plain,
    bootstrap: bool = False,
) -> Coverage:
    """Coverage of the clustered t interval (of the magnitude mean, of the difference) and of Fieller's interval."""
    data = model(np.random.default_rng(seed), shape, studies, n)
    hits, refused = Counter[str](), 0

    def count(name: str, interval: tuple[float, float] | None, truth: float) -> None:
        hits[name] += interval is not None and interval[0] <= truth <= interval[1]

    for study in data:
        m = moments(study)
        count("mean", m.linear(0.0, 1.0).interval(), MAGNITUDE)
        count("difference", m.linear(1.0, -1.0).interval(), ANGULAR - MAGNITUDE)
        if ratio(m)[0] is None:
            refused += 1
        else:
            count("ratio", ratio_interval(m)[0], ANGULAR / MAGNITUDE)
        if bootstrap:
            count("bca", bca(m.sums[1], m.weights, resamples=500), MAGNITUDE)
    defined = max(studies - refused, 1)
    return Coverage(
        hits["mean"] / studies,
        hits["difference"] / studies,
        hits["ratio"] / defined,
        refused / studies,
        hits["bca"] / studies,
    )


def token_weighted(n: int, studies: int, seed: int = 0) -> tuple[float, float]:
    """Coverage of the linearised ratio of sums, and of a plain t interval over per-item rates; long items lose less.

    The truth is the population's sum of damage / sum of tokens: E[t r(t)] / E[t].
    """
    rng = np.random.default_rng(seed)
    lengths, rate = np.arange(5, 65), lambda t: 4.0 / t + 0.2
    truth = float((lengths * rate(lengths)).mean() / lengths.mean())
    linearised = per_item = 0
    for _ in range(studies):
        t = rng.integers(5, 65, n).astype(float)
        s = t * rate(t) * rng.exponential(1.0, n) + rng.standard_normal(n)
        low, high = moments(s[None], t).linear(1.0).interval()
        linearised += low <= truth <= high
        low, high = moments((s / t)[None]).linear(1.0).interval()
        per_item += low <= truth <= high
    return linearised / studies, per_item / studies


def shared_draws(n: int, seeds: int, seed_sd: float, studies: int, seed: int = 0) -> tuple[float, float]:
    """Coverage for items crossed with seeds: the two-way interval, and the one that treats draws as nested."""
    rng = np.random.default_rng(seed)
    two_way = nested = 0
    for _ in range(studies):
        effects = rng.exponential(1.0, n)[:, None] + seed_sd * rng.standard_normal(seeds)[None]
        y = effects + rng.standard_normal((n, seeds))
        low, high = moments(y[None], shared_draws=True).linear(1.0).interval()
        two_way += low <= 1.0 <= high
        low, high = moments(y[None]).linear(1.0).interval()
        nested += low <= 1.0 <= high
    return two_way / studies, nested / studies


def shared_ratio(n: int, seeds: int, seed_sd: float, studies: int, seed: int = 0) -> tuple[float, float]:
    """Coverage of the ratio's interval when the angular arm shares its draws, and the share of refused ratios."""
    rng = np.random.default_rng(seed)
    hit = refused = 0
    for _ in range(studies):
        item = rng.exponential(1.0, n)[:, None]
        angular = ANGULAR * item + seed_sd * rng.standard_normal(seeds)[None] + rng.standard_normal((n, seeds))
        magnitude = MAGNITUDE * item + rng.standard_normal((n, seeds))
        m = moments(np.stack([angular, magnitude]), shared_draws=True)
        if ratio(m)[0] is None:
            refused += 1
            continue
        interval, _ = ratio_interval(m)
        hit += interval is not None and interval[0] <= ANGULAR / MAGNITUDE <= interval[1]
    return hit / max(studies - refused, 1), refused / studies


@dataclass
class Stopping:
    """Of studies that stop by the width of R's interval: coverage, mean items used, share that ran into the cap."""

    coverage: float
    items: float
    capped: float


def stopping(
    shape: str,
    width: float,
    cap: int,
    studies: int,
    seed: int = 0,
    model: Callable[..., np.ndarray] = plain,
    chunk: int = 200,
) -> Stopping:
    """Coverage of the interval of R at the round in which `look` stops; items come in an order of their own."""
    rng = np.random.default_rng(seed)
    hits = items = capped = 0
    for start in range(0, studies, chunk):
        for study in model(rng, shape, min(chunk, studies - start), cap):
            n: int | None = rounds(cap)[0]
            while n is not None:
                m = moments(study[:, :n])
                found = look([m], n, width, cap)
                n = found.next_items
            interval, _ = ratio_interval(m)
            hits += interval is not None and interval[0] <= ANGULAR / MAGNITUDE <= interval[1]
            items += found.n_items
            capped += found.half_width is None or found.half_width > width
    return Stopping(hits / studies, items / studies, capped / studies)


@dataclass(frozen=True)
class Truth:
    """True mean damages per delta: (angular, magnitude) nats and points, for n texts and pairs."""

    loss: tuple[tuple[float, float], ...]
    drop: tuple[tuple[float, float], ...]
    n_texts: int = 100
    n_pairs: int = 200
    loss_noise: float = 0.05
    pair_sd: float | None = None  # None: pairs flip or not; else Gaussian item drops with this SD per arm


PUBLISHED = Truth(
    loss=((3.757, 0.700), (7.061, 3.262), (7.718, 4.600)),
    drop=((1.6, 20.4), (12.4, 33.5), (22.1, 36.0)),
    n_texts=281,
)
SCENARIOS: dict[str, Truth] = {
    "equal arms": Truth(loss=((0.1, 0.1), (0.4, 0.4), (0.9, 0.9)), drop=((1.0, 1.0), (5.0, 5.0), (12.0, 12.0))),
    "loss differs, accuracy does not": Truth(
        loss=((0.4, 0.1), (1.6, 0.4), (3.6, 0.9)), drop=((1.0, 1.0), (5.0, 5.0), (12.0, 12.0))
    ),
    "published effects": PUBLISHED,
    "accuracy at the band's edge": Truth(
        loss=((0.5, 0.5),), drop=((3.0, 5.0),), n_texts=400, n_pairs=400, loss_noise=0.01, pair_sd=5.0
    ),
    "loss at the band's edge": Truth(
        loss=((0.45, 0.5),), drop=((3.0, 3.0),), n_texts=400, n_pairs=400, loss_noise=0.05, pair_sd=2.0
    ),
    "equal arms, precise": Truth(
        loss=((0.5, 0.5),), drop=((3.0, 3.0),), n_texts=400, n_pairs=400, loss_noise=0.01, pair_sd=2.0
    ),
}


def verdicts(truth: Truth, studies: int, seed: int = 0) -> Counter[str]:
    """How often each kind of run comes out. Items keep their effect across deltas; draws are 5 per item."""
    rng = np.random.default_rng(seed)
    found = Counter[str]()
    for _ in range(studies):
        size, ability = rng.gamma(2.0, 0.5, truth.n_texts), rng.random(truth.n_pairs)
        family = []
        for loss, drop in zip(truth.loss, truth.drop, strict=True):
            spread = truth.loss_noise * max(loss)
            item_loss = np.stack([d * size for d in loss]) + spread * rng.standard_normal((2, truth.n_texts))
            if truth.pair_sd is None:
                # an item flips in a draw with a probability of its own whose mean is the true drop
                p = np.stack([np.clip(2.0 * d / 100.0 * ability, 0.0, 1.0) for d in drop])
                item_drop = 100.0 * rng.binomial(5, p) / 5.0
            else:
                noise = truth.pair_sd * rng.standard_normal((2, truth.n_pairs))
                item_drop = np.array(drop)[:, None] + noise
            family.append(Sides(moments(item_loss), moments(item_drop, bounded=True)))
        found[overall([one.kind for one in classify(family, Bands())])] += 1
    return found


# Per arm: the damage that is left when attention, the MLP, or both are held clean, as shares of it.
LEFT = {"angular": (0.7, 0.5, 0.1), "magnitude": (0.9, 0.4, 0.15)}


def repairs(rng: np.random.Generator, n: int, per_cluster: int, tokens: bool) -> tuple[np.ndarray, ...]:
    """((8, n) item damages, (n,) weights, (n,) clusters).

    Per arm: unrepaired, then with attention, MLP and both held clean. Items of a cluster share half of their effect;
    what is left of a damage varies from item to item, more so in long items, where the truth is token-weighted.
    """
    cluster = np.arange(n) // per_cluster
    lengths = rng.integers(5, 65, n).astype(float) if tokens else np.ones(n)
    effect = 0.5 * rng.exponential(1.0, n) + 0.5 * rng.exponential(1.0, n)[cluster]
    rows = []
    for arm, size in (("angular", ANGULAR), ("magnitude", MAGNITUDE)):
        damage = size * effect * lengths * np.exp(0.3 * rng.standard_normal(n) - 0.045)
        rows.append(damage + 0.3 * rng.standard_normal(n) * np.sqrt(lengths))
        rows += [
            damage * left * rng.gamma(4.0, 0.25, n) + 0.3 * rng.standard_normal(n) * np.sqrt(lengths)
            for left in LEFT[arm]
        ]
    return np.stack(rows), lengths, cluster


def repair_coverage(
    n: int, studies: int, *, per_cluster: int = 1, tokens: bool = False, seed: int = 0
) -> dict[str, float]:
    """Coverage of recoveries, of their difference between the arms, and of everything in a Shapley split."""
    rng = np.random.default_rng(seed)
    (a, m, both), (a2, _, _) = LEFT["angular"], LEFT["magnitude"]
    phi = ANGULAR * (1 - a + m - both) / 2
    hits = Counter[str]()

    def count(name: str, interval: tuple[float, float] | None, truth: float) -> None:
        hits[name] += interval is not None and interval[0] <= truth <= interval[1]

    for _ in range(studies):
        x, weights, cluster = repairs(rng, n, per_cluster, tokens)
        moment = moments(x, weights, cluster)
        row = np.eye(8)
        count("recovery", recovery(moment.combined(row[1], row[0])).ci95, 1 - a)
        arms = moment.combined(row[1], row[0], row[5], row[4])
        count("difference", recovery_difference(arms).interval(), a2 - a)
        found = split(moment.combined(*row[:4]))
        count("phi", found.phi["attention"].interval(), phi)
        count("interaction", found.interaction.interval(), ANGULAR * (a + m - both - 1))
        count("share", found.share["attention"].ci95, phi / (ANGULAR * (1 - both)))
    return {name: hits[name] / studies for name in ("recovery", "difference", "phi", "interaction", "share")}


def amplification_coverage(n: int, studies: int, *, seed: int = 0) -> dict[str, float]:
    """Coverage of the amplification of one arm and of the arms' ratio; growth is skewed, larger for small steps."""
    rng = np.random.default_rng(seed)
    hits = Counter[str]()
    for _ in range(studies):
        norm = np.exp(0.4 * rng.standard_normal(n))
        step = 0.1 * norm
        growth = np.exp(0.5 * rng.standard_normal((2, n)) - 0.125) / norm
        angular, magnitude = 3.18 * step * growth[0], step * growth[1]
        truth = 1 / np.exp(0.08)  # of magnitude: E[step·growth] / E[step]
        m = moments(np.stack([angular, step, magnitude, step]))
        _, interval = exponential(log_amplification_ratio(m))
        hits["ratio"] += interval[0] <= 3.18 <= interval[1]
        _, interval = exponential(log_amplification(m.combined((0, 0, 1, 0), (0, 0, 0, 1))))
        hits["one arm"] += interval[0] <= truth <= interval[1]
    return {name: hits[name] / studies for name in ("ratio", "one arm")}


def main(studies: int) -> None:
    print(f"{studies} studies each; shares of 95 % intervals that hold the truth")
    for model in (plain, damages):
        for shape in SHAPES:
            for n in (50, 200):
                c = coverage(shape, n, studies, model=model, bootstrap=True)
                print(
                    f"  {model.__name__:8} {shape:12} n = {n:3}: mean {c.mean:.4f}  difference {c.difference:.4f}  "
                    f"ratio {c.ratio:.4f} (refused {c.refused:.4f})  BCa mean {c.bca_mean:.4f}"
                )
    for n in (50, 200):
        linearised, per_item = token_weighted(n, studies)
        print(f"  ratio of sums, n = {n}: linearised {linearised:.4f}, t over per-item rates {per_item:.4f}")
    for sd in (0.0, 0.3, 1.0):
        two_way, nested = shared_draws(60, 5, sd, studies)
        of_ratio, refused = shared_ratio(60, 5, sd, studies // 5)
        print(f"  60 items x 5 shared seeds, seed SD {sd}: two-way {two_way:.4f}, nested {nested:.4f}")
        print(f"    ratio: {of_ratio:.4f} (refused {refused:.4f})")
    print("adaptive precision: studies that stop when R's half-width reaches a share of R, at most 960 items")
    for model in (plain, damages):
        for shape in SHAPES:
            for width in (0.4, 0.28, 0.2):
                s = stopping(shape, width, 960, studies, model=model)
                print(
                    f"  {model.__name__:8} {shape:12} width {width}: covers {s.coverage:.4f}  "
                    f"items {s.items:.0f}  at the cap {s.capped:.4f}"
                )
    for options in ({}, {"tokens": True}, {"per_cluster": 4}, {"per_cluster": 4, "tokens": True}):
        print(f"  repairs of 100 items {options}: {repair_coverage(100, studies, **options)}")
    print(f"  amplification of 100 items: {amplification_coverage(100, studies)}")
    print("verdicts")
    for name, truth in SCENARIOS.items():
        shares = {kind: count / studies for kind, count in verdicts(truth, studies).most_common()}
        print(f"  {name}: {shares}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
