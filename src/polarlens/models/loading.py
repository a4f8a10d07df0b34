"""Loading a model by name: a Hub id, a folder or a GGUF file.

What the name means is found out first, without torch and transformers, whose import takes seconds: a wrong name or a
missing network is told at once.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from polarlens import bundled
from polarlens.errors import UsageError
from polarlens.models import hub
from polarlens.models.folder import examine_folder
from polarlens.models.gguf_file import read_header
from polarlens.models.source import Source

if TYPE_CHECKING:
    from polarlens.models.language_model import LanguageModel


def load(
    name: str | os.PathLike[str],
    *,
    device: str = "cpu",
    dtype: str = "float32",
    revision: str | None = None,
    trust_pickle: bool = False,
    trust_remote_code: bool = False,
) -> "LanguageModel":
    """Load a causal language model and verify its anatomy.

    Parameters
    ----------
    name: a Hub id (`EleutherAI/pythia-410m`, `@revision` allowed), a local folder, a `.gguf` file, or a bundled twin
        (`twin-layernorm`, `twin-rmsnorm`).
    device: cpu | cuda | mps | auto (the best single device) | split (over several devices by accelerate).
    dtype: float32 | bfloat16 | float16 | float64. Quantised GGUF weights are dequantised to it.
    revision: of a Hub model: branch, tag or commit.
    trust_pickle, trust_remote_code: allow pickled weights and code that comes with the model; both can run anything.

    A cached Hub model needs no network. Weights that are missing from a checkpoint are refused, not initialised.

    Raises UsageError when the model cannot be found or read as named, ModelError when it is there but not usable.
    """
    name = os.fspath(name)
    path = bundled.path(name) if name in bundled.TWINS else Path(name).expanduser()
    is_file = path.is_file() or name.lower().endswith(".gguf")
    if revision is not None and (is_file or path.is_dir()):
        raise UsageError("a local model has no revisions", where=name, fix="Leave the revision out.")
    if is_file:
        header = read_header(path, name=name)
        from polarlens.models.reading import read_gguf

        return read_gguf(name, path, header, device=device, dtype=dtype)
    if path.is_dir():
        at, source = (
            path,
            Source("bundled", name) if name in bundled.TWINS else Source("directory", str(path.resolve())),
        )
    else:
        at, source = _from_hub(name, revision, trust_pickle, trust_remote_code)
    folder = examine_folder(at, name=name, trust_pickle=trust_pickle, trust_remote_code=trust_remote_code)
    from polarlens.models.reading import read_folder

    return read_folder(name, folder, source, device=device, dtype=dtype, trust_remote_code=trust_remote_code)


def _from_hub(name: str, revision: str | None, trust_pickle: bool, trust_remote_code: bool) -> tuple[Path, Source]:
    """The local copy of a Hub model's files, and where it came from."""
    if name.startswith("twin-"):
        raise UsageError(
            "there is no such twin", where=name, fix=f"The bundled ones are {' and '.join(bundled.TWINS)}."
        )
    repository, _, named = name.partition("@")
    if not hub.ID.fullmatch(repository) or name.startswith((".", "~")):
        raise UsageError("there is no such file or folder", where=name, fix="Check the path.")
    if named and revision not in (None, named):
        raise UsageError(f"two revisions are given, {named} and {revision}", where=name, fix="Give one.")
    at, commit = hub.fetch(
        repository, named or revision, trust_pickle=trust_pickle, trust_remote_code=trust_remote_code
    )
    return at, Source("hub", repository, commit)
