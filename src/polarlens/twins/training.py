"""Training one twin: AdamW, a linear schedule, checkpoints that a killed run goes on from."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from polarlens.twins.architecture import build
from polarlens.twins.batches import Rows
from polarlens.twins.recipe import Norm, Recipe

CHECKPOINT_SECONDS = 120.0

Report = Callable[[int, float], None]
"""Told the steps done and the loss of the last one (nats per token)."""


def train(
    norm: Norm, recipe: Recipe, rows: Rows, checkpoint: Path, report: Report, stop: Callable[[], bool] = lambda: False
) -> float:
    """Train a twin on `rows`, from the checkpoint where there is one of this recipe; the checkpoint holds the result.

    Returns the training time in seconds over all calls. With one recipe, thread count and kind of CPU the weights are
    the same bit for bit, interrupted or not. When `stop` says so, the state is saved and training ends early.
    """
    torch.set_num_threads(recipe.threads)
    model = build(norm, recipe).train()
    optimiser = optimiser_of(model, recipe)
    state = load_checkpoint(checkpoint, recipe)
    done, seconds = 0, 0.0
    if state:
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        done, seconds = state["step"], state["seconds"]
    started = saved = time.monotonic()
    for step in range(done, recipe.steps):
        loss = train_step(model, optimiser, rows, step, recipe)
        report(step + 1, loss)
        stopped = stop()
        if stopped or time.monotonic() - saved > CHECKPOINT_SECONDS or step + 1 == recipe.steps:
            saved = time.monotonic()
            _save(checkpoint, {
                "recipe": asdict(recipe), "step": step + 1, "seconds": seconds + saved - started,
                "model": model.state_dict(), "optimiser": optimiser.state_dict(),
            })  # fmt: skip
        if stopped:
            break
    return seconds + saved - started


def optimiser_of(model: Any, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices only."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.ndim > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in trainable if p.ndim == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=recipe.betas, foreach=False, fused=True)


def learning_rate(step: int, recipe: Recipe) -> float:
    """The rate of a step (from 0): up over the warm-up, then linearly down, 0 only after the last step."""
    warmup = max(1, round(recipe.warmup * recipe.steps))
    return recipe.learning_rate * min((step + 1) / warmup, (recipe.steps - step) / max(1, recipe.steps - warmup))


def train_step(model: Any, optimiser: torch.optim.Optimizer, rows: Rows, step: int, recipe: Recipe) -> float:
    """One step on batch `step`; returns its loss, nats per token."""
    for group in optimiser.param_groups:
        group["lr"] = learning_rate(step, recipe)
    ids = torch.from_numpy(rows[step * recipe.batch : (step + 1) * recipe.batch].astype(np.int64))
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    loss = cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
    optimiser.step()
    optimiser.zero_grad()
    return float(loss.detach())


def load_checkpoint(path: Path, recipe: Recipe) -> Mapping[str, Any] | None:
    """The state saved at `path`, None where there is none or it belongs to another recipe."""
    if not path.exists():
        return None
    state: Mapping[str, Any] = torch.load(path, weights_only=True)
    return state if state["recipe"] == asdict(recipe) else None


def _save(path: Path, state: Mapping[str, Any]) -> None:
    temporary = path.with_suffix(".tmp")
    torch.save(dict(state), temporary)
    os.replace(temporary, path)
