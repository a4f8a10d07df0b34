"""Several models in one command: each runs in a folder of its own, one after the other, then they are compared."""

import gc
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from polarlens.errors import PolarlensError, UsageError
from polarlens.protocol.compare import Compared, compare
from polarlens.protocol.config import RunConfig, resolved, run_name
from polarlens.protocol.estimate import Estimate
from polarlens.protocol.progress import say
from polarlens.protocol.result import Run
from polarlens.protocol.runner import execute
from polarlens.protocol.tasks import read_data

if TYPE_CHECKING:
    from polarlens.models import LanguageModel

TAKEN = ("compare.json", "compare.html", "figures", "manifest.json")  # what else may lie in the folder of the folders


@dataclass(frozen=True)
class Many:
    """What came of several models.

    runs: of the models that could be run. plans: instead of runs, of a dry run. compared: None where fewer than two
    runs can be compared. failed: one message per model, unit of work or comparison that failed.
    """

    folder: Path
    runs: tuple[Run, ...] = ()
    plans: tuple[Estimate, ...] = ()
    compared: Compared | None = None
    failed: tuple[str, ...] = field(default=())


def execute_many(config: RunConfig, loaded: "Mapping[str, LanguageModel] | None" = None) -> Many:
    """Run the protocol on each of `config.models` into a folder under `config.out`, and compare the runs there.

    A model that cannot be loaded or run is listed in `failed`, and the others are done. Each model is freed before the
    next one is loaded; `loaded` are models by name that the caller has loaded, and keeps.

    Raises UsageError before anything is done when the data cannot be read or the folder is that of one run, and the
    first model's error when none of the models could be run.
    """
    config = resolved(config)
    assert config.out is not None
    if (config.out / "manifest.json").exists():
        raise UsageError(
            "this is the folder of one run, not of several", where=str(config.out), fix="Choose another with --out."
        )
    read = read_data(config)
    runs, plans, failed, errors = [], [], [], []
    for model, folder in zip(config.models, folders(config.models), strict=True):
        one = config.model_copy(update={"models": (model,), "out": config.out / folder})
        try:
            result = execute(one, model=(loaded or {}).get(model), read=read)
        except (PolarlensError, RuntimeError, MemoryError) as error:
            errors.append(error.with_traceback(None))  # the traceback would keep the model
            failed.append(f"{model}: {str(error).removeprefix(f'{model}: ')}")
            say(f"{failed[-1]} Going on with the other models.", quiet=config.quiet)
        else:
            if isinstance(result, Run):
                runs.append(result)
                failed += [f"{model}: {message}" for message in result.failed]
            else:
                plans.append(result)
        gc.collect()
    if len(errors) == len(config.models):
        raise errors[0]
    compared = None
    if len(runs) > 1:
        try:
            compared = compare(runs, config.out)
        except UsageError as error:
            failed.append(f"comparison: {error}")
    return Many(config.out, tuple(runs), tuple(plans), compared, tuple(failed))


def folders(models: Sequence[str]) -> list[str]:
    """A folder name per model: its `run_name`, with a digest of the name behind it where two would be the same.

    Raises UsageError when a model is named twice, as one folder can be under two spellings.
    """
    places = [
        str(Path(model).expanduser().resolve()) if Path(model).expanduser().exists() else model for model in models
    ]
    twice = [model for model, place in zip(models, places, strict=True) if places.count(place) > 1]
    if twice:
        raise UsageError("this model is named twice", where=" and ".join(twice), fix="Name every model once.")
    names = [run_name(model) for model in models]
    # file systems that ignore case, and the files of the comparison
    times = Counter([*(name.casefold() for name in names), *TAKEN])
    return [
        name if times[name.casefold()] == 1 else f"{name}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"
        for name, place in zip(names, places, strict=True)
    ]
