"""Name what is wrong with a configuration in one line."""

import difflib
import re
from collections.abc import Iterable, Sequence

from sqrtdk.system import errors

LISTED = 60
"""Names that a message lists at most."""


class ConfigError(errors.MistakeError):
    """A mistake in the configuration; the message is one line for the person who made it."""


def refuse(key: str, value: object, allowed: str, known: Iterable[str] = ()) -> ConfigError:
    """The error for a bad value: the key, the value, what is allowed and the nearest name."""
    return ConfigError(
        f"{key}: {errors.shorten(value)} is not allowed; allowed: {allowed}{_hint(value, known)}"
    )


def unknown(key: object, known: Iterable[str], where: str = "") -> ConfigError:
    """The error for a key that nothing has, with the nearest that something has."""
    known = sorted(known)
    if isinstance(key, str) and "." in key and not where:
        # As a config file may have it.
        top, *rest = key.split(".")
        if top in known and all(rest):
            way = nested([top, *rest], "VALUE")
            return ConfigError(f"{key}: a key with dots is not allowed; allowed: {way}")
    return ConfigError(
        f"unknown key {errors.shorten(str(key))}{where}; known: {listing(known)}{_hint(key, known)}"
    )


def listing(names: Iterable[str]) -> str:
    """Return names as a message lists them: all, or the first of many.

    >>> listing(map(str, range(1000))).split(", ")[-2:]
    ['59', '… (1000 in all)']
    """
    names = list(names)
    more = [f"… ({len(names)} in all)"] if len(names) > LISTED else []
    return ", ".join([*names[:LISTED], *more])


def join(names: Sequence[str]) -> str:
    """Return names as a sentence lists them.

    >>> join(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _hint(given: object, known: Iterable[str]) -> str:
    # A key in other letters is nearer than any other key.
    folded = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(given).lower(), list(folded), n=1, cutoff=0.5)
    return f"; did you mean {folded[near[0]]}?" if near else ""


def given_twice(key: str) -> ConfigError:
    """The error for a repeated key, of which the last would win in silence."""
    return ConfigError(f"{key} is given twice; give it once, a list for several values")


def nested(path: Sequence[str], text: str) -> str:
    """Return a key with dots, and its value, in the form that every command takes.

    >>> nested(["training", "steps"], "10")
    "training='{steps: 10}'"
    """
    # A space after the colon, which YAML needs, and quotes that the shell leaves alone.
    text = re.sub(r":(?=\S)", ": ", text.replace("'", '"'))
    top, *rest = path
    for key in reversed(rest):
        text = f"{{{key}: {text}}}"
    return f"{top}='{text if text.startswith('{') else '{KEY: VALUE}'}'"
