"""Check one value of a configuration against its key."""

import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sqrtdk.config.errors import ConfigError, invalid_value, listing
from sqrtdk.config.yaml_reader import DECIMAL
from sqrtdk.schema import Document, Key
from sqrtdk.system.errors import UserError

FACTORS = (1e-15, 1e15)
"""Range of the number of a scale rule at any size of the grid, and of keys of numbers. The squares
of these numbers, times a variance of up to 1e8, fit into both float types. Beyond this range every
weight is 1/n_k, or 0 and 1."""

HERE = "SQRTDK_HERE"
"""Variable with the folder that the user typed the command in, where it is not the current one."""

MOST_NAMES = 100
"""Maximum scale rules or input laws of one experiment, which are lines or panels of figures."""


def read_number(value: object) -> float | None:
    """Return a finite number, also from text, or None for anything else.

    YAML reads 1e-3, without a point, as text, and Snakemake the numbers of a list.
    """
    if isinstance(value, str) and DECIMAL.fullmatch(value):
        value = int(value) if re.fullmatch(r"[+-]?\d+", value) else float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Not math.isfinite, which raises for an integer that is too large for a float.
    return value if abs(value) <= sys.float_info.max else None


def as_word(value: object) -> object:
    """Return a boolean as on or off: YAML reads these words as booleans."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def to_list(key: str, value: object) -> list[Any]:
    """Return a value as a list. Raises ConfigError for an empty one."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise invalid_value(key, value, "one value or a list that is not empty")
    return values


def refuse_repeat(key: str, values: list[Any]) -> None:
    """Raise ConfigError for a value that is listed twice."""
    repeated = next((value for value, count in Counter(values).items() if count > 1), None)
    if repeated is not None:
        raise ConfigError(f"{key}: {repeated} is listed twice")


def check_value(
    key: Key,
    value: object,
    entries: Mapping[str, Document],
    usable: Callable[[str], Document] | None = None,
) -> Any:
    """Return a key's checked value: sorted for an axis of numbers, with the entries for names.

    Messages suggest the names of `usable` of `entries`, by default all.
    """
    if value is None and key.optional:
        return None
    if not key.axis and isinstance(value, (list, tuple)):
        raise invalid_value(key.name, value, key.allowed)
    if key.kind == "file":
        return _files(key, value)
    given = to_list(key.name, value) if key.axis else [value]
    if key.named_in:
        known = entries[key.named_in]
        names = [str(as_word(item)) for item in given]
        for name in names:
            if name not in known:
                likely = (usable or entries.__getitem__)(key.named_in)
                raise invalid_value(key.name, name, listing(likely), likely)
        refuse_repeat(key.name, names)
        if len(names) > MOST_NAMES:
            raise ConfigError(f"{key.name}: {len(names)} names; allowed: at most {MOST_NAMES}")
        return {name: known[name] for name in names}
    checked: list[Any]
    if key.kind == "choice":
        checked = [as_word(item) for item in given]
        for item in checked:
            if item not in key.choices:
                raise invalid_value(key.name, item, key.allowed, key.choices)
    elif key.kind == "text":
        for item in given:
            if not isinstance(item, str) or not item:
                raise invalid_value(key.name, item, key.allowed)
        checked = given
    else:
        read = _whole if key.kind == "whole" else _positive
        checked = sorted(read(key, item) for item in given)
    refuse_repeat(key.name, checked)
    return checked if key.axis else checked[0]


def _whole(key: Key, value: object) -> int:
    """Return a whole number in range. 1e9 is allowed; true, 2.5 and '1_000' are not."""
    number = read_number(value)
    top = math.inf if key.maximum is None else key.maximum
    if number is None or number != int(number) or not key.minimum <= number <= top:
        raise invalid_value(key.name, value, key.allowed)
    return int(number)


def _positive(key: Key, value: object) -> float:
    """Return a finite number above 0."""
    number = read_number(value)
    if number is None or not number > 0:
        raise invalid_value(key.name, value, key.allowed)
    if not FACTORS[0] <= number <= FACTORS[1]:
        raise invalid_value(key.name, value, f"numbers from {FACTORS[0]:g} to {FACTORS[1]:g}")
    return float(number)


def _files(key: Key, value: object) -> dict[str, str]:
    """Return the SHA-256 of each file by its path, relative to the working directory.

    A text is a path relative to the user's folder, and its content is digested now. A mapping is
    what this function returned before, from a resolved configuration.
    """
    if isinstance(value, Mapping):
        for path, digest in value.items():
            if not (isinstance(path, str) and re.fullmatch(r"[0-9a-f]{64}", str(digest))):
                allowed = f"{key.allowed}, or a mapping from path to SHA-256"
                raise invalid_value(key.name, f"{path}: {digest}", allowed)
        if not value or (len(value) > 1 and not key.axis):
            raise invalid_value(key.name, dict(value), key.allowed)
        return {str(path): str(digest) for path, digest in value.items()}
    # Not at the top, because a run without files needs no reader of them.
    from sqrtdk.tensors.files import content_digest

    found: dict[str, str] = {}
    for item in to_list(key.name, value):
        if not isinstance(item, str) or not item or "\0" in item:
            raise invalid_value(key.name, item, key.allowed)
        here = os.environ.get(HERE, os.curdir)
        path = os.path.relpath(os.path.join(here, os.path.expanduser(item)))
        refuse_repeat(key.name, [*found, path])
        try:
            found[path] = content_digest(Path(path))
        except UserError as error:
            raise ConfigError(f"{key.name}: {error}; allowed: {key.allowed}") from None
    return found
