"""Putting a configuration together: the keys of a YAML file, and over them what the command line says."""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from polarlens import bundled
from polarlens.errors import UsageError
from polarlens.protocol.config import RunConfig


def configure(options: Mapping[str, Any], file: Path | None = None, *, twins: bool = False) -> RunConfig:
    """The configuration of `options` (None: not given) over the keys of `file`; an option replaces the file's value.

    twins: where neither names a model, both lie over the shipped configuration of the bundled twins.

    Raises UsageError that names the option, or the file and its key.
    """
    given = {key: value for key, value in options.items() if value is not None}
    settings = {} if file is None else read_settings(file)
    shipped = twins and not (given.get("models") or settings.get("models"))
    beneath = read_settings(bundled.path(bundled.CONFIGURATION)) if shipped else {}
    try:
        return RunConfig(**{**beneath, **settings, **given})
    except UsageError as error:
        where = error.where
        if where in given:
            where = "MODEL" if where == "models" else "--" + where.replace("_", "-")
        elif where in settings:
            where = f"{file}, key {where}"
        raise UsageError(error.what, where=where, fix=error.fix) from None


def read_settings(file: Path) -> dict[str, Any]:
    """The keys and values of a YAML file; `-` and `_` in keys mean the same, a key without a value counts as not given.

    Raises UsageError for a file that cannot be read, is not YAML, holds a tag that would build a Python object, or
    gives a key twice.
    """
    try:
        content = yaml.load(file.read_text(encoding="utf-8-sig"), _Loader)
    except OSError as error:
        raise UsageError(f"cannot be read ({error.strerror})", where=str(file), fix="Check --config.") from None
    except UnicodeDecodeError:
        raise UsageError("is not a text file in UTF-8", where=str(file), fix="Check --config.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark is not None else str(file)
        raise UsageError(f"is not usable YAML: {getattr(error, 'problem', None) or error}", where=where) from None
    except RecursionError:
        raise UsageError("is nested too deeply", where=str(file)) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UsageError("holds no keys", where=str(file), fix="Write one `key: value` a line.")
    settings: dict[str, Any] = {}
    for key, value in content.items():
        name = str(key).replace("-", "_")
        if name in settings:
            raise UsageError("this key is given twice", where=f"{file}, key {key}")
        settings[name] = value
    return {key: value for key, value in settings.items() if value is not None}


class _Loader(yaml.SafeLoader):
    """A SafeLoader that refuses a key given twice instead of keeping the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value} is given twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)
