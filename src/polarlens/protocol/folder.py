"""The run's folder: one process at a time, and settings that may not change under existing rows."""

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Many
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polarlens.errors import UsageError
from polarlens.protocol.plan import Wanted

OWN_NAMES = ("manifest.json", "summary.json", "report.html", "rows", "figures")
MANIFEST_KEYS = {"schema", "model", "configuration", "settings", "policies", "data", "wanted", "failed_units"}


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the operating system releases it when the process dies.

    Raises UsageError with the holder's pid and host when another process has it, and when the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("a+")
    except OSError as error:
        raise UsageError(
            f"the folder cannot be written ({error.strerror})", where=str(folder), fix="Choose another with --out."
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise UsageError(
                f"another process is working in this folder ({file.read().strip() or 'unknown'})",
                where=str(folder),
                fix="Wait for it, or choose another folder with --out.",
            ) from error
        file.truncate(0)
        file.write(f"pid {os.getpid()} on {socket.gethostname()}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)  # kept, not removed: a file removed while another process opens it can be locked twice


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of an existing run, None in a folder without one.

    Raises UsageError when it is not one of ours, and when a folder without a manifest holds files of our names.
    """
    path = folder / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(manifest, dict) or not manifest.keys() >= MANIFEST_KEYS:
            raise ValueError
    except FileNotFoundError:
        foreign = [name for name in OWN_NAMES if (folder / name).exists()]
        if foreign:
            raise UsageError(
                f"the folder holds {', '.join(foreign)} but no manifest of a run",
                where=str(folder),
                fix="Choose another folder with --out: nothing of yours is replaced.",
            ) from None
        return None
    except (OSError, ValueError) as error:
        raise UsageError(
            "this is not the manifest of a run of this version",
            where=str(path),
            fix="Choose another folder with --out.",
        ) from error
    return manifest


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def check_settings(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse to mix rows made under different settings.

    Raises UsageError naming each setting that differs, with its old and new value.
    """
    before, after = _flat(old), _flat(new)
    changed = [
        f"{name} was {before.get(name)!r} and is now {after.get(name)!r}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    if changed:
        raise UsageError(
            "the folder holds rows made with other settings: " + "; ".join(changed),
            where=str(folder),
            fix="Choose another folder with --out, or --overwrite to discard what is there.",
        )


def discard(folder: Path) -> None:
    """Remove what a run wrote, and nothing else. Raises UsageError when the folder is not a run's."""
    if read_manifest(folder) is None:
        return
    for name in OWN_NAMES:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def check_items(folder: Path, old: Many[Wanted], new: Wanted, *, fewer: bool = True) -> None:
    """Refuse items that do not belong with those that the folder is about. old: what it wants of the same task.

    fewer: whether only some of these items may be read, which they may where nothing new is asked of them.

    Raises UsageError when other items take the place of some, when some only would get new conditions (the rows would
    then be about more than the manifest says), and for any other items where all belong together.
    """
    before, now = {key for one in old for key in one.items}, set(new.items)
    if not old or now == before or (now > before and not new.whole):
        return
    asked, layers = ({one for part in old for one in getattr(part, name)} for name in ("asked", "layers"))
    if fewer and not new.whole and now < before and new.asked <= asked and set(new.layers) <= layers:
        return
    kept = len(before & now)
    raise UsageError(
        f"the folder holds {len(before)} items of the task {new.task}, and this command reads {kept} of them",
        where=str(folder),
        fix=f"Give the same data{'' if new.whole else ', or more of it'}; or choose another folder with --out, or "
        "--overwrite.",
    )
