"""The configuration of a run: one record of what was asked, checked before anything is loaded.

A field is None where nothing was asked; `resolved` fills in what the preset decides. What depends on the task, the
grid of displacements and the data read by default, is answered by `grid` and `sources`.
"""

import difflib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from polarlens.bundled import TWINS
from polarlens.data.spec import (
    BUNDLED,
    DEFAULT_PAIR_LIMIT,
    DEFAULT_PAIR_SPECS,
    DEFAULT_TEXT_FILTER,
    DEFAULT_TEXT_SPEC,
    LEAST_TREES,
)
from polarlens.errors import UsageError
from polarlens.protocol import values

Preset = Literal["matched", "paper", "notebook"]
Experiment = Literal["sweep", "repair", "propagation", "probing", "audit", "curvature"]
DeltaMode = Literal["relative", "absolute", "site"]
Positions = Literal["all", "no-first", "no-sinks"]
Task = Literal["loss", "pairs", "trees"]

RATIO_GRID = (0.02, 0.05, 0.1, 0.2, 0.5)
ABSOLUTE_GRID: dict[Task, tuple[float, ...]] = {
    "loss": (1.0, 2.0, 5.0, 10.0, 15.0, 20.0),
    "pairs": (5.0, 10.0, 15.0),
    "trees": (5.0,),
}

PRESETS: dict[Preset, dict[str, Any]] = {
    "matched": {"delta_mode": "relative", "positions": ("all", "no-sinks"), "bos": "auto", "allow_mismatch": False},
    "paper": {"delta_mode": "absolute", "positions": ("all",), "bos": "auto", "allow_mismatch": False},
    "notebook": {
        "delta_mode": "absolute",
        "positions": ("all",),
        "bos": "none",
        "allow_mismatch": True,
        "text_filter": "notebook",
    },
}


def _maybe(parse: Callable[[Any], Any]) -> BeforeValidator:
    """`parse`, for a field that may also be None."""
    return BeforeValidator(lambda value: None if value is None else parse(value))


Integer = _maybe(values.integer)
Number = _maybe(values.finite)
Flag = BeforeValidator(values.flag)
Name = _maybe(values.text)


class RunConfig(BaseModel):
    """What was asked of a run; every field is an option of `polarlens run` and a key of its YAML file.

    Raises UsageError, naming the key, for an unknown key, a value that cannot be read or lies outside its range, and
    what does not go together.

    models: Hub ids, directories or GGUF files; empty where the caller brings a loaded model.
    layers: `8-15`, `4,6`, `middle` or `each`; read against the model by `polarlens.protocol.layers.parse_layers`.
    delta: displacements in ascending order, without the delta = 0 control, for both tasks; None for the preset's.
    seeds: how many seeds, numbered from 0. limit: items kept of each SPEC. max_tokens: of a text, without BOS.
    text, pairs, treebank: data SPECs. treebank_limit: sentences kept of the treebank, in place of `limit`.
    batch_tokens: tokens in one forward pass; None leaves it to the engine.
    ci_width: relative half-width of the loss ratio, down to which texts are added; None takes all of them.
    executor: who does the units. ray_address: of a Ray cluster, HOST:PORT or `auto`; None starts a Ray here.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: Annotated[tuple[str, ...], BeforeValidator(values.specs)] = ()
    experiments: Annotated[tuple[Experiment, ...] | None, _maybe(values.choices)] = None
    preset: Preset = "matched"
    layers: Annotated[str, BeforeValidator(values.layers)] = "middle"
    delta: Annotated[tuple[float, ...] | None, _maybe(values.deltas)] = None
    delta_mode: DeltaMode | None = None
    positions: Annotated[tuple[Positions, ...] | None, _maybe(values.choices)] = None
    bos: Annotated[str | None, Name] = None
    seeds: Annotated[int, Integer, Field(ge=1)] = 5
    limit: Annotated[int | None, Integer, Field(ge=1)] = None
    text: Annotated[str | None, _maybe(values.spec)] = None
    text_filter: Literal["none", "notebook"] | None = None
    max_tokens: Annotated[int, Integer, Field(ge=2)] = 64
    pairs: Annotated[tuple[str, ...] | None, _maybe(values.specs)] = None
    treebank: Annotated[str | None, _maybe(values.spec)] = None
    treebank_limit: Annotated[int | None, Integer, Field(ge=LEAST_TREES)] = None
    repair: Annotated[tuple[str, ...] | None, _maybe(values.choices)] = None
    repair_layers: Annotated[str | None, _maybe(values.layers)] = None
    out: Annotated[Path | None, _maybe(values.path)] = None
    device: Annotated[str, BeforeValidator(values.device)] = "cpu"
    dtype: Literal["float32", "float64", "bfloat16", "float16"] = "float32"
    batch_tokens: Annotated[int | None, Integer, Field(ge=1)] = None
    ci_width: Annotated[float | None, Number, Field(gt=0)] = None
    executor: Literal["local", "ray"] = "local"
    ray_address: Annotated[str | None, Name] = None
    allow_mismatch: Annotated[bool | None, _maybe(values.flag)] = None
    overwrite: Annotated[bool, Flag] = False
    dry_run: Annotated[bool, Flag] = False
    quiet: Annotated[bool, Flag] = False
    trust_pickle: Annotated[bool, Flag] = False
    trust_remote_code: Annotated[bool, Flag] = False

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, values: Any, handler: Callable[[Any], "RunConfig"]) -> "RunConfig":
        try:
            config = handler(values)
        except ValidationError as error:
            raise _as_usage_error(error.errors()[0]) from None
        _check_ratios(config)
        _check_width(config)
        _check_executor(config)
        return config


def _as_usage_error(problem: Any) -> UsageError:
    """One message that names the key, from pydantic's first complaint."""
    key = str(problem["loc"][0]) if problem["loc"] else None
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(key).replace("-", "_"), RunConfig.model_fields, n=1, cutoff=0)
        return UsageError("this key is not known", where=key, fix=f"The nearest known one is {near[0]}.")
    message = problem["msg"]
    if problem["type"] == "literal_error":
        message = f"{problem['input']!r} is not one of {problem['ctx']['expected']}"
    elif problem["type"] == "greater_than_equal":
        message = f"{problem['input']} is too small; the least is {problem['ctx']['ge']}"
    elif problem["type"] == "greater_than":
        message = f"{problem['input']} is too small; it must lie above {problem['ctx']['gt']:g}"
    return UsageError(message, where=key)


def _check_ratios(config: RunConfig) -> None:
    mode = config.delta_mode or PRESETS[config.preset]["delta_mode"]
    for delta in config.delta or ():
        if mode == "relative" and delta >= 1:
            raise UsageError(
                f"{delta:g} is no relative displacement, which is a fraction of a state's norm below 1",
                where="delta",
                fix="Name smaller deltas, or give --delta-mode absolute.",
            )


def _check_width(config: RunConfig) -> None:
    if config.ci_width is None:
        return
    sweeps = config.experiments is None or "sweep" in config.experiments
    if not sweeps or (config.pairs and not config.text):
        raise UsageError(
            "this is the precision of the sweep's loss ratio, and none is measured",
            where="ci_width",
            fix=f"{'Give texts' if sweeps else 'Ask for the sweep'}, or leave it out.",
        )


def _check_executor(config: RunConfig) -> None:
    if config.ray_address is not None and config.executor != "ray":
        raise UsageError(
            "an address of Ray is given, and not its executor", where="ray_address", fix="Give --executor ray too."
        )


def resolved(config: RunConfig) -> RunConfig:
    """A copy in which everything that the preset and the defaults decide is filled in.

    `delta`, `text`, `pairs` and `treebank` stay as given: ask `grid` and `sources`.
    """
    defaults: dict[str, Any] = {
        "experiments": ("sweep", "repair", "propagation", *(("probing",) if config.treebank else ())),
        "text_filter": "none" if config.text or config.pairs or _only_twins(config) else DEFAULT_TEXT_FILTER,
        "out": Path("polarlens-runs") / ("+".join(map(run_name, config.models))[:100] or "model"),
        **PRESETS[config.preset],
    }
    return config.model_copy(update={key: value for key, value in defaults.items() if getattr(config, key) is None})


def grid(config: RunConfig, task: Task) -> tuple[float, ...]:
    """The displacements above 0 that `task` runs at: those given, else the default grid of the delta mode."""
    if config.delta is not None:
        return config.delta
    mode = config.delta_mode or PRESETS[config.preset]["delta_mode"]
    return ABSOLUTE_GRID[task] if mode == "absolute" else RATIO_GRID


@dataclass(frozen=True)
class Sources:
    """The data SPECs of a run; None or empty where a task does not run. Limits are items kept of each SPEC."""

    text: str | None
    text_limit: int | None
    pairs: tuple[str, ...]
    pairs_limit: int | None
    treebank: str | None = None
    treebank_limit: int | None = None


def sources(config: RunConfig) -> Sources:
    """What to read: the SPECs given; without any, bundled data for the twins and the published Hub sets for others.

    A treebank is read where probing is asked for; probing alone reads texts and pairs only where they are given. Raises
    UsageError when no treebank can be had.
    """
    limit, trees = config.limit, _treebank(config)
    if config.text or config.pairs:
        return Sources(config.text, limit, config.pairs or (), limit, *trees)
    if config.experiments == ("probing",):
        return Sources(None, limit, (), limit, *trees)
    if _only_twins(config):
        return Sources(BUNDLED, limit, (BUNDLED,), limit, *trees)
    return Sources(DEFAULT_TEXT_SPEC, limit, DEFAULT_PAIR_SPECS, limit or DEFAULT_PAIR_LIMIT, *trees)


def _treebank(config: RunConfig) -> tuple[str | None, int | None]:
    """The treebank's SPEC and how many of its sentences are kept: `limit`, though never fewer than probes need."""
    if "probing" not in (resolved(config).experiments or ()):
        return None, None
    spec = config.treebank or (BUNDLED if _only_twins(config) else None)
    if spec is None:
        fix = "Give --treebank FILE.conllu, hub:NAME:CONFIG, or bundled."
        raise UsageError("probing needs a treebank, and none is named", where="--treebank", fix=fix)
    return spec, config.treebank_limit or (config.limit and max(config.limit, LEAST_TREES))


def _only_twins(config: RunConfig) -> bool:
    return bool(config.models) and set(config.models) <= set(TWINS)


def run_name(model: str) -> str:
    """The name of a model's folder: of a directory or file its last part, of a Hub id `owner--name`.

    `EleutherAI/pythia-410m@main` gives `EleutherAI--pythia-410m@main`.
    """
    path = Path(os.path.expanduser(model))
    if path.suffix == ".gguf" or path.exists():
        return path.resolve().name.removesuffix(".gguf") or "model"
    return re.sub(r"[^A-Za-z0-9._@-]", "-", model.replace("/", "--"))
