"""Check one value of a configuration against its key."""

import math
import re
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sqrtdk.config.errors import ConfigError, invalid_value, listing
from sqrtdk.config.yaml_reader import DECIMAL
from sqrtdk.schema import Key

FACTORS = (1e-15, 1e15)
"""Range of the number of a scale rule at any size of the grid, and of keys of numbers. The squares
of these numbers, times a variance of up to 1e8, fit into both float types. Beyond this range every
weight is 1/n_k, or 0 and 1."""

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


def check_value(key: Key, value: object, entries: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return a key's checked value: sorted for an axis of numbers, with the entries for names."""
    if not key.axis and isinstance(value, (list, tuple)):
        raise invalid_value(key.name, value, key.allowed)
    given = to_list(key.name, value) if key.axis else [value]
    if key.named_in:
        known = entries[key.named_in]
        names = [str(as_word(item)) for item in given]
        for name in names:
            if name not in known:
                raise invalid_value(key.name, name, listing(known), known)
        refuse_repeat(key.name, names)
        if len(names) > MOST_NAMES:
            raise ConfigError(f"{key.name}: {len(names)} names; allowed: at most {MOST_NAMES}")
        return {name: known[name] for name in names}
    if key.kind == "choice":
        for item in given:
            if item not in key.choices:
                raise invalid_value(key.name, item, key.allowed, key.choices)
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
