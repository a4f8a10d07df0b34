"""Silence for libraries that talk while they load: their log lines and progress bars are not for our users."""

import io
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr

from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
from transformers.utils import logging as transformers_logging


@contextmanager
def quiet(*, stderr: bool = False) -> Iterator[None]:
    """Errors only from transformers and huggingface_hub, no progress bars; the settings before are restored.

    stderr: drop all that is written there as well. The GGUF reader draws a bar that no setting reaches.
    """
    root = logging.getLogger("transformers")
    levels = {logger: logger.level for logger in (root, logging.getLogger("huggingface_hub"))}
    bars = transformers_logging.is_progress_bar_enabled()
    hub_bars = not are_progress_bars_disabled()
    with ExitStack() as stack:
        if stderr:
            stack.enter_context(redirect_stderr(io.StringIO()))
        try:
            for logger in levels:
                logger.setLevel(logging.CRITICAL)
            transformers_logging.disable_progress_bar()
            disable_progress_bars()
            yield
        finally:
            for logger, level in levels.items():
                logger.setLevel(level)
            if bars:
                transformers_logging.enable_progress_bar()
            if hub_bars:
                enable_progress_bars()
