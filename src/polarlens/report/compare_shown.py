"""What of a comparison a reader is shown: the models in order of their norms, and the contrasts at the headline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from polarlens.report.numbers import NONE, estimate, listed, nats, points, probability
from polarlens.report.shown import UNITS, Entry, blocks, contrasts, headline_noise, noises, reference
from polarlens.report.tables import FEW
from polarlens.statistics.verdict import pair_policy_name

Document = Mapping[str, Any]

NORMS = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}
ALPHA = 0.05  # two-sided, adjusted by Holm
ORDER = ("layernorm", "rmsnorm")
# (kind, arm) of the columns, a - b or a / b
COLUMNS = (("difference", None), ("difference", "angular"), ("difference", "magnitude"), ("ratio", None))


def norm_name(run: Mapping[str, Any]) -> str:
    """The norm kind in words."""
    return NORMS.get(run["norm_kind"] or "", "norm kind unknown")


def by_norm(document: Document) -> dict[str, list[Mapping[str, Any]]]:
    """Norm kind in words -> its runs, LayerNorm first, in the order given."""
    ordered = sorted(document["runs"], key=lambda run: (*ORDER, run["norm_kind"]).index(run["norm_kind"]))
    out: dict[str, list[Mapping[str, Any]]] = {}
    for run in ordered:
        out.setdefault(norm_name(run), []).append(run)
    return out


def size(run: Mapping[str, Any]) -> str:
    """Parameters, as 135 M."""
    n = run["n_params"]
    if n is None:
        return NONE
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= scale:
            return f"{n / scale:.3g} {unit}"
    return str(n)


def tested(document: Document) -> list[str]:
    """The claims that at least one of the runs tested."""
    ids = dict.fromkeys(claim["id"] for run in document["runs"] for claim in run["claims"])
    return [id_ for id_ in ids if any(status(run, id_) != "not_run" for run in document["runs"])]


def status(run: Mapping[str, Any], id_: str) -> str:
    """The status of a claim in a run."""
    return next((str(one["status"]) for one in run["claims"] if one["id"] == id_), "not_run")


def positions(run: Mapping[str, Any]) -> str | None:
    """The positions of a run's headline."""
    return run["verdict"].get("positions")


def own(run: Mapping[str, Any], task: str) -> list[Entry]:
    """A run's contrast that is drawn: R for the loss, drop_magnitude - drop_angular for the pairs; the middle block.

    Pairs under independent noise, where it was run.
    """
    what = "ratio" if task == "loss" else "difference"
    found = [one for one in contrasts(run, positions(run)) if (one.task, one.what) == (task, what)]
    noise = headline_noise([name for _, name in noises(found)])
    groups = blocks(found)
    middle = groups[len(groups) // 2] if groups else None
    return [one for one in found if one.noise == noise and one.condition.layers == middle]


@dataclass(frozen=True)
class Line:
    """Two models at one delta. found: (kind, arm) -> the contrast."""

    delta: float
    layers: str
    found: Mapping[tuple[str, str | None], Mapping[str, Any]]

    @property
    def usable(self) -> bool:
        """Whether the delta is usable in both runs: elsewhere there is no p-value."""
        return any(one["ci_simultaneous"] is not None for one in self.found.values())

    def text(self, kind: str, arm: str | None, unit: str) -> str:
        """The contrast with its 95 % interval, or a dash."""
        one = self.found.get((kind, arm))
        return NONE if one is None else estimate(one["value"], one["ci95"], "" if kind == "ratio" else unit)

    def p_holm(self, kind: str, arm: str | None = None) -> str:
        """The adjusted p-value of a contrast."""
        return probability(self.found.get((kind, arm), {}).get("p_holm"))


@dataclass(frozen=True)
class Block:
    """All lines of two models in one task under one noise (None for texts)."""

    model_a: str
    model_b: str
    task: str
    noise: str | None
    paired: bool
    n_items: tuple[int, int]
    lines: Sequence[Line]

    @property
    def unit(self) -> str:
        """Unit of the differences."""
        return UNITS[self.task]

    @property
    def varied(self) -> bool:
        """Whether several groups of blocks were perturbed on their own."""
        return len({line.layers for line in self.lines}) > 1

    @property
    def unusable(self) -> bool:
        """Whether a delta is not usable in one of the runs."""
        return not all(line.usable for line in self.lines)

    @property
    def how(self) -> str:
        """What the intervals rest on."""
        a, b = self.n_items
        what = "texts" if self.task == "loss" else "pairs"
        how = f"{a:,} shared {what}, paired" if self.paired else f"{a:,} and {b:,} {what}, independent samples"
        return how + (f"; fewer than {FEW} make an interval a rough guide" if min(a, b) < FEW else "")


def compared(document: Document) -> list[Block]:
    """The contrasts at the headline's positions, by pair of models, task and noise; deltas ascending."""
    runs = {run["model"]: run for run in document["runs"]}
    found: dict[tuple[str, str, str, str], dict[tuple[str, float], dict[tuple[str, str | None], Any]]] = {}
    for one in document["contrasts"]:
        if one["positions"] == positions(runs[one["model_a"]]):
            key = (one["model_a"], one["model_b"], one["task"], one["policy_id"])
            layers = one["layers"] or f"{one['layers_a']} and {one['layers_b']}"
            line = found.setdefault(key, {}).setdefault((layers, one["delta"]), {})
            line[one["kind"], one["arm"]] = one
    out = []
    for (a, b, task, policy), lines in found.items():
        first = next(iter(next(iter(lines.values())).values()))
        noise = pair_policy_name(policy, runs[a]["policies"]) if task == "pairs" else None
        rows = [Line(delta, layers, by) for (layers, delta), by in lines.items()]
        out.append(Block(a, b, task, noise, first["paired"], (first["n_items_a"], first["n_items_b"]), rows))
    return out


def answers(document: Document) -> list[str]:
    """Sentences: the verdicts, then, two models at a time, how loss ratio and accuracy contrast differ at one delta."""
    found = compared(document)
    kinds: dict[str, list[str]] = {}
    for run in document["runs"]:
        kinds.setdefault(run["verdict"]["kind"].replace("_", " "), []).append(run["model"])
    out = ["Verdict " + "; ".join(f"{kind} in {listed(models)}" for kind, models in kinds.items()) + "."]
    for a, b in combinations([run["model"] for run in document["runs"]], 2):
        here = [one for one in found if (one.model_a, one.model_b) == (a, b)]
        loss = next((one for one in here if one.task == "loss"), None)
        noise = headline_noise([one.noise for one in here if one.task == "pairs"])
        pairs = next((one for one in here if one.task == "pairs" and one.noise == noise), None)
        said = [text for text in (_of_loss(document, loss), _of_pairs(document, pairs)) if text]
        if said:
            out.append(f"{a} against {b}: {'; '.join(said)}.")
    return out


def _at_reference(document: Document, block: Block) -> Line:
    run = document["runs"][0]
    entries = [one for task in ("loss", "pairs") for one in own(run, task)]
    deltas = sorted({line.delta for line in block.lines})
    shared = [one for one in entries if one.condition.delta in deltas]
    wanted = reference(run, shared) if shared else deltas[len(deltas) // 2]
    lines = [line for line in block.lines if line.delta == wanted]
    return lines[len(lines) // 2]


def _of_loss(document: Document, block: Block | None) -> str:
    if block is None:
        return ""
    line = _at_reference(document, block)
    one = line.found[("ratio", None)]
    if one["value"] is None:
        other = line.found[("difference", None)]
        difference = line.text("difference", None, block.unit)
        said = f"the loss damages of direction minus magnitude differ by {difference} {block.unit}"
        return f"at delta {line.delta:g} {said} ({_decided(other)})"
    means = " against ".join(nats(one[name]) for name in ("value_a", "value_b"))
    ratio = estimate(one["value"], one["ci95"], "")
    said = f"direction costs {means} times the loss that magnitude costs, a ratio of {ratio}"
    return f"at delta {line.delta:g} {said} ({_decided(one)})"


def _of_pairs(document: Document, block: Block | None) -> str:
    if block is None:
        return ""
    line = _at_reference(document, block)
    one = line.found[("difference", None)]
    means = " against ".join(points(one[name]) for name in ("value_a", "value_b"))
    noise = f", {block.noise} noise" if block.noise else ""
    said = f"magnitude costs {means} points more accuracy than direction, a difference of"
    return f"at delta {line.delta:g} {said} {line.text('difference', None, 'points')} ({_decided(one)}{noise})"


def _decided(one: Mapping[str, Any]) -> str:
    p = one["p_holm"]
    if one["ci_simultaneous"] is None:
        return "no test: a model is at its floor there" if one["ci95"] is not None else "no interval"
    return f"{'they differ' if p <= ALPHA else 'not told apart'}, p {probability(p)}"
