"""Build one-line error messages for a configuration."""

import difflib
import re
from collections.abc import Iterable, Sequence

from sqrtdk.system import errors

LISTED = 60
"""Maximum number of names in a message."""


class ConfigError(errors.UserError):
    """An invalid configuration; the message is one line for the user."""


def invalid_value(key: str, value: object, allowed: str, known: Iterable[str] = ()) -> ConfigError:
    """Return the error for a bad value: key, value, what is allowed and the nearest name."""
    return ConfigError(
        f"{key}: {errors.shorten(value)} is not allowed; allowed: {allowed}{_hint(value, known)}"
    )


def unknown(key: object, known: Iterable[str], where: str = "") -> ConfigError:
    """Return the error for an unknown key, suggesting the closest known one."""
    known = sorted(known)
    if isinstance(key, str) and "." in key and not where:
        # A config file may contain such a key.
        top, *rest = key.split(".")
        if top in known and all(rest):
            way = nested([top, *rest], "VALUE")
            return ConfigError(f"{key}: a key with dots is not allowed; allowed: {way}")
    return ConfigError(
        f"unknown key {errors.shorten(str(key))}{where}; known: {listing(known)}{_hint(key, known)}"
    )


def listing(names: Iterable[str]) -> str:
    """Format names for a message: all, or the first of many.

    >>> listing(map(str, range(1000))).split(", ")[-2:]
    ['59', '… (1000 in all)']
    """
    names = list(names)
    more = [f"… ({len(names)} in all)"] if len(names) > LISTED else []
    return ", ".join([*names[:LISTED], *more])


def join(names: Sequence[str]) -> str:
    """Join names for a sentence.

    >>> join(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _hint(given: object, known: Iterable[str]) -> str:
    # A key that differs only in case is closer than any other key.
    folded = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(given).lower(), list(folded), n=1, cutoff=0.5)
    return f"; did you mean {folded[near[0]]}?" if near else ""


def given_twice(key: str) -> ConfigError:
    """Return the error for a repeated key: otherwise the last value would win silently."""
    return ConfigError(f"{key} is given twice; give it once, a list for several values")


def nested(path: Sequence[str], text: str) -> str:
    """Return a key with dots, and its value, in the form that every command accepts.

    >>> nested(["training", "steps"], "10")
    "training='{steps: 10}'"
    """
    # YAML needs a space after the colon, and the shell needs the other quotes.
    text = re.sub(r":(?=\S)", ": ", text.replace("'", '"'))
    top, *rest = path
    for key in reversed(rest):
        text = f"{{{key}: {text}}}"
    return f"{top}='{text if text.startswith('{') else '{KEY: VALUE}'}'"
