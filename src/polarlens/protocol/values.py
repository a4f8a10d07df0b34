"""Reading single configuration values, given as a command line's text or as the values of a YAML file alike.

Each function returns the value in its final type or raises pydantic's error with a message for the user.
"""

import math
import os
import re
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError

from polarlens.errors import UsageError
from polarlens.protocol.layers import read_ranges


def _refuse(message: str) -> PydanticCustomError:
    # The message is data: passed as context, since braces in a template would be read as fields.
    return PydanticCustomError("polarlens", "{message}", {"message": message})


def integer(value: Any) -> int:
    """A whole number; neither true nor 5.0, which YAML and Python would let pass."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _refuse(f"{value!r} is not a whole number")


def number(value: Any) -> float:
    """A number, not yet checked for its range."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise _refuse(f"{value!r} is not a number")
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise _refuse(f"{value!r} is not a number") from None


def finite(value: Any) -> float:
    """A number that is neither infinite nor NaN."""
    found = number(value)
    if not math.isfinite(found):
        raise _refuse(f"{value!r} is not a finite number")
    return found


def flag(value: Any) -> bool:
    """True or false, as YAML writes them."""
    if isinstance(value, bool):
        return value
    raise _refuse(f"{value!r} is neither true nor false")


def text(value: Any) -> str:
    """A name that is not blank, without spaces around it."""
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise _refuse(f"{value!r} is not a name" + ("" if isinstance(value, str) else "; put it in quotes"))


def path(value: Any) -> Path:
    """A path, with a leading ~ read as the home directory."""
    return value if isinstance(value, Path) else Path(os.path.expanduser(text(value)))


def spec(value: Any) -> str:
    """A data SPEC; a path is one."""
    return str(value) if isinstance(value, Path) else text(value)


def _listed(value: Any) -> list[Any]:
    """A list from a list, from a comma-separated string, or from one value."""
    values = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
    return [item.strip() if isinstance(item, str) else item for item in values]


def _distinct(values: list[Any]) -> tuple[Any, ...]:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise _refuse(f"{value} is named twice")
    if not values:
        raise _refuse("the list is empty")
    return tuple(values)


def choices(value: Any) -> tuple[Any, ...]:
    """Different names, from a list or separated by commas."""
    return _distinct(_listed(value))


def specs(value: Any) -> tuple[str, ...]:
    """One or several different SPECs or model names; commas are part of a name."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return _distinct([spec(item) for item in values])


def deltas(value: Any) -> tuple[float, ...]:
    """Displacements in ascending order; 0 is dropped, since the control always runs."""
    deltas = [number(item) for item in _listed(value)]
    for delta in deltas:
        if not math.isfinite(delta) or delta < 0:
            raise _refuse(f"{delta:g} is not a displacement; a delta is a finite number above 0")
    if not any(_distinct(deltas)):
        raise _refuse("0 alone displaces nothing and always runs, as the control; name a delta above 0")
    return tuple(sorted(delta for delta in deltas if delta > 0))


def layers(value: Any) -> str:
    """A layers spec whose form is right; whether the model has these blocks is seen later."""
    if isinstance(value, bool) or not isinstance(value, (str, int, list, tuple)):
        raise _refuse(f"{value!r} does not name blocks; write 8-15, 4,6, middle or each")
    spec = ",".join(str(item) for item in value) if isinstance(value, (list, tuple)) else str(value)
    if spec not in ("middle", "each"):
        try:
            read_ranges(spec)
        except UsageError as error:
            raise _refuse(f"{error.what}. {error.fix}") from None
    return spec


def device(value: Any) -> str:
    """The name of a device."""
    name = text(value)
    if not re.fullmatch(r"cpu|cuda(:[0-9]{1,3})?|mps|auto|split", name):
        raise _refuse(f"{name!r} is not a device; choose cpu, cuda, mps, auto or split")
    return name
