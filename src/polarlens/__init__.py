"""Polarlens: move the direction or the length of hidden states by the same distance, and measure what is lost.

The public surface is what `__all__` names. Everything heavy is imported when it is first used.
"""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from polarlens.version import __version__

if TYPE_CHECKING:
    from polarlens.models import LanguageModel, check, load
    from polarlens.perturbation import perturb
    from polarlens.protocol.compare import compare
    from polarlens.protocol.config import RunConfig
    from polarlens.protocol.estimate import Estimate
    from polarlens.protocol.many import Many
    from polarlens.protocol.result import Run

__all__ = ["LanguageModel", "Run", "RunConfig", "__version__", "check", "compare", "load", "perturb", "run"]

_HOMES = {
    "LanguageModel": "polarlens.models",
    "Run": "polarlens.protocol.result",
    "RunConfig": "polarlens.protocol.config",
    "check": "polarlens.models",
    "compare": "polarlens.protocol.compare",
    "load": "polarlens.models",
    "perturb": "polarlens.perturbation",
}


def run(
    model: "LanguageModel | str | os.PathLike[str] | Sequence[LanguageModel | str | os.PathLike[str]]", **options: Any
) -> "Run | Estimate | Many":
    """Run the protocol on a model and return the result, which is also a folder on disk; with `dry_run` only the plan.

    model: a loaded model, or what `polarlens.load` takes. A list of several: each runs in a folder of its own, they are
        compared, and the result holds `runs`, `compared` and what `failed`.
    options: the options of `polarlens run` with `_` for `-`, as text or as Python values: `layers="8-15"`,
        `delta=[0.05, 0.1]`, `pairs=["a.jsonl", "b.jsonl"]`.

    Raises UsageError and ModelError before anything is written; units that fail later are listed in the result.
    """
    from polarlens.errors import UsageError
    from polarlens.protocol.config import RunConfig

    models: list[Any] = list(model) if isinstance(model, list | tuple) else [model]
    names: list[str] = []
    loaded: dict[str, LanguageModel] = {}
    for one in models:
        if isinstance(one, str | os.PathLike):
            names.append(os.fspath(one))
        elif hasattr(one, "anatomy"):
            names.append(one.name)
            loaded[one.name] = one
        else:
            what = f"a {type(one).__name__} is no model"
            raise UsageError(what, fix="Give what polarlens.load returns or takes, or a list of such.")
    if not names:
        raise UsageError("no model is named", fix="Give a model, or a list of several.")
    config = RunConfig(models=tuple(names), **options)
    if len(names) == 1:
        from polarlens.protocol.runner import execute

        return execute(config, model=loaded.get(names[0]))
    from polarlens.protocol.many import execute_many

    return execute_many(config, loaded)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
