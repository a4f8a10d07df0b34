"""Made-up numbers of repair, propagation, curvature and audit, in the form that a summary holds them."""

from collections.abc import Sequence
from typing import Any

from made_up import summary

ARMS = ("magnitude", "angular")
REPAIRS = ("attention", "mlp", "attention+mlp", "norm", "norm-scale", "attention-pattern", "final-norm-scale")
# recovery of the angular arm; the magnitude arm's is half of it, plus a bit
RECOVERED = dict(zip(REPAIRS, (0.281, 0.512, 0.731, 0.137, -0.083, 0.152, 0.044), strict=True))
SPLIT = {"attention": 0.041, "mlp": 0.073, "interaction": -0.012, "attention+mlp": 0.114, "out of reach": 0.052}
UNDEFINED = "the damage is not clearly above 0"
NUMBERS = {"ci_simultaneous": None, "n_items": 40, "n_clusters": 40}


def around(value: float | None, half: float = 0.05) -> list[float] | None:
    return None if value is None else [value - half, value + half]


def whole(preset: str = "matched", *, layers: Sequence[str] = ("9-15",), **more: Any) -> dict[str, Any]:
    """A summary of a run with every experiment; repairs at `layers`, one set after the other."""
    document = summary(preset=preset, **more)
    of = "nll_item" if preset in ("paper", "notebook") else "nll"
    for part in (repair(of, layers), propagation(), curvature()):
        for key, entries in part.items():
            document[key] += entries
    return {**document, **audit()}


def repair(of: str = "nll", layers: Sequence[str] = ("9-15",)) -> dict[str, list[dict[str, Any]]]:
    cells: list[dict[str, Any]] = []
    contrasts: list[dict[str, Any]] = []
    series = [("loss", of, "matched")]
    series += [("pairs", m, f"matched-{n}") for m in ("accuracy", "margin") for n in ("common", "independent")]
    for k, (task, measure, policy) in enumerate(series):
        at = {"experiment": "repair", "task": task, "of": measure, "delta": 0.1, "layers": "8-15", "positions": "all"}
        at["policy_id"] = policy
        for arm in ARMS:
            damage = {"arm": arm, "measure": measure, "mean": 0.2, "ci95": [0.1, 0.3], "n_seeds": 5}
            cells.append({**at, "of": None, **damage, "repair": None, "repair_layers": None, **NUMBERS})
        for i, where in enumerate(layers):
            for name, value in RECOVERED.items():
                site = {"repair": name, "repair_layers": None if name == "final-norm-scale" else where}
                found: dict[str, float | None] = {"angular": value + 0.01 * (k + i), "magnitude": value / 2 + 0.02 * k}
                if (task, name, i) == ("pairs", "norm", 0):
                    found["magnitude"] = None
                for arm, mean in found.items():
                    why = {} if mean is not None else {"why": UNDEFINED}
                    entry = {**at, **site, "measure": "recovery", "arm": arm, "mean": mean, "ci95": around(mean)}
                    cells.append({**entry, **NUMBERS, "n_seeds": 5, **why})
                known = None not in found.values()
                difference = found["angular"] - found["magnitude"] if known else None  # type: ignore[operator]
                entry = {**at, **site, "measure": "recovery", "kind": "difference", "value": difference}
                why = {} if known else {"why": UNDEFINED}
                contrasts.append(
                    {**entry, "ci95": around(difference), "p_holm": 0.0321, "defined": known, **NUMBERS, **why}
                )
            for name, value in SPLIT.items():
                site = {"repair": name, "repair_layers": where}
                for arm, mean in {"angular": value * (1 + k), "magnitude": 0.6 * value * (1 + k)}.items():
                    entry = {**at, **site, "measure": "shapley", "arm": arm, "mean": mean, "ci95": around(mean, 0.01)}
                    cells.append({**entry, **NUMBERS, "n_seeds": 5})
    return {"cells": cells, "contrasts": contrasts}


def propagation(injected: Sequence[int] = (8, 9), last: int = 23) -> dict[str, list[dict[str, Any]]]:
    cells: list[dict[str, Any]] = []
    contrasts: list[dict[str, Any]] = []
    for first in injected:
        at = {"experiment": "propagation", "task": "loss", "positions": "all", "policy_id": "matched", "delta": 0.1}
        at["layers"] = str(first)
        for arm, growth in (("magnitude", 0.97), ("angular", 1.06)):
            for block in range(first, last + 1):
                relative = 0.1 * growth ** (block - first)
                for measure, value in (("relative", relative), ("distance", 20 * relative), ("cosine", 1 - relative)):
                    entry = {**at, "measure": measure, "arm": arm, "block": block, "mean": value}
                    cells.append({**entry, "ci95": around(value, value / 10), **NUMBERS, "n_seeds": 5})
            grown = growth ** (last - first)
            entry = {**at, "measure": "amplification", "arm": arm, "mean": grown, "ci95": around(grown, grown / 10)}
            cells.append({**entry, **NUMBERS, "n_seeds": 5})
        ratio = (1.06 / 0.97) ** (last - first)
        entry = {**at, "measure": "amplification", "kind": "ratio", "value": ratio, "ci95": around(ratio, 0.2)}
        contrasts.append({**entry, "p_holm": 0.0007, "defined": True, **NUMBERS})
    return {"cells": cells, "contrasts": contrasts}


def curvature(blocks: Sequence[int] = tuple(range(8, 16))) -> dict[str, list[dict[str, Any]]]:
    """The limit of R is 3.5 throughout, and not defined at the first block."""
    cells: list[dict[str, Any]] = []
    contrasts: list[dict[str, Any]] = []
    for block in blocks:
        at = {"experiment": "curvature", "task": "loss", "block": block, "layers": str(block), "positions": "all"}
        at |= {"delta": None, "n_items": 40}
        magnitude = 0.02 * (1 + block)
        defined = block != blocks[0]
        for measure, arm, value in (
            ("curvature", "magnitude", magnitude),
            ("curvature", "angular", 3.5 * magnitude),
            ("curvature_tangential", "angular", 3.6 * magnitude),
            ("curvature_gradient", "angular", -0.1 * magnitude),
        ):
            bounds = around(value, abs(value) / 5)
            cells.append(
                {
                    **at,
                    "measure": measure,
                    "arm": arm,
                    "mean": value,
                    "ci95": bounds,
                    "ci_simultaneous": None,
                    "n_seeds": 8,
                }
            )
        difference = 2.5 * magnitude
        entry = {
            **at,
            "measure": "curvature",
            "kind": "difference",
            "value": difference,
            "ci95": around(difference, 0.1),
        }
        contrasts.append({**entry, "p_holm": 0.004, "defined": True})
        entry = {**at, "measure": "curvature", "kind": "ratio", "value": 3.5 if defined else None}
        entry |= {"ci95": [3.1, 4.2] if defined else None, "defined": defined}
        contrasts.append({**entry, **({} if defined else {"why": "the denominator's interval is not above 0"})})
    return {"cells": cells, "contrasts": contrasts}


def audit() -> dict[str, Any]:
    """Two corners and three policies; one effect cannot be estimated."""
    policies = {
        "matched": ("matched", {}),
        "matched:layers=shared": ("matched", {"across_layers": "shared"}),
        "matched:layers=mix,members=mix": ("matched", {"across_layers": "mix", "across_members": "mix"}),
        "notebook": ("notebook", {}),
        "notebook:plane=covariance": ("notebook", {"plane": "covariance"}),
    }
    survival: list[dict[str, Any]] = []
    effects: list[dict[str, Any]] = []
    for k, (name, (corner, changes)) in enumerate(policies.items()):
        for claim, value in (("C1", 1.9 + k), ("C2", 18.8 - 7 * k), *((("C3", 0.1),) if not changes else ())):
            status = "replicates" if value > 0 else "contradicts"
            entry = {"claim": claim, "policy_id": name, "value": value, "ci95": around(value, 0.7), "status": status}
            survival.append({**entry, "why": f"why of {claim}"})
        kind = "crossed" if k < 3 else "loss_only"
        survival.append(
            {"claim": "verdict", "policy_id": name, "value": None, "ci95": None, "status": kind, "why": "so"}
        )
        if not changes:
            continue
        for measure, value in (("log_ratio", 0.4 * k - 0.1), ("accuracy", -3.0 * k)):
            lost = measure == "log_ratio" and corner == "notebook"
            shown = None if lost else value
            entry = {"measure": measure, "kind": "effect", "policy_id": name, "from": corner, "changes": changes}
            entry |= {"value": shown, "ci95": around(shown, 0.3), "p_holm": None if lost else 0.012}
            effects.append({**entry, "rank": None if lost else 5 - k, **({"why": "no logarithm"} if lost else {})})
    cross = {"measure": "log_ratio", "kind": "interaction", "policy_id": "matched:layers=mix,members=mix"}
    cross |= {"from": "matched", "changes": policies["matched:layers=mix,members=mix"][1], "rank": None}
    effects.append({**cross, "value": 0.123, "ci95": [0.1, 0.15], "p_holm": 0.03})
    return {"audit": survival, "audit_effects": effects, "audit_text": "5 noise policies were run, and so on."}
