"""Who does the units of a run: this process (`local`), or workers of a Ray cluster that hold the model (`ray`).

Both yield units with what came of them, as they are done; the runner alone writes rows.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from polarlens.errors import UsageError
from polarlens.protocol.bench import Bench
from polarlens.protocol.config import RunConfig
from polarlens.protocol.executors.work import Executor
from polarlens.protocol.prepared import Prepared


def connected(config: RunConfig, *, loaded: bool) -> AbstractContextManager[None]:
    """What the executor needs before a model is loaded; nothing for `local` and for a dry run.

    loaded: whether the caller brings a loaded model. Raises UsageError where the executor cannot be had.
    """
    if config.executor == "local":
        return nullcontext()
    if loaded:
        fix = "Name the model instead: a Hub id, a folder or a GGUF file, which every worker loads itself."
        raise UsageError("a model that is already loaded cannot be sent to Ray's workers", where="executor", fix=fix)
    if config.device == "split":
        fix = "Leave out --executor ray, or give --device cuda or auto: each worker then holds a whole model."
        raise UsageError("a model split over devices runs in one process", where="--device split", fix=fix)
    from polarlens.protocol.executors.cluster import connection, require_ray

    require_ray()
    return nullcontext() if config.dry_run else connection(config.ray_address)


@contextmanager
def opened(
    prepared: Prepared, medians: Mapping[str, Mapping[int, float]], settings: Mapping[str, Any]
) -> Iterator[Executor]:
    """The executor of a run, ready to be given units as often as there are some; its workers end with the context."""
    if prepared.config.executor == "local":
        from polarlens.protocol.executors.local import Local

        yield Local(Bench(prepared, medians))
        return
    from polarlens.protocol.executors.pool import Pool
    from polarlens.protocol.executors.recipe import recipe_of

    recipe = recipe_of(prepared, medians, settings)
    if recipe.device != "cpu":
        prepared.lm.hf.to("cpu")  # makes room for the worker on the same device
        recipe.empty_cache()
    quiet = prepared.config.quiet
    pool = Pool(recipe, device=recipe.device, threads=recipe.threads, weights=recipe.weights, quiet=quiet)
    try:
        yield pool
    finally:
        pool.close()
