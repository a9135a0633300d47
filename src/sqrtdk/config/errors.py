"""Build one-line error messages for a configuration."""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence

from sqrtdk.messages import nearest, shorten
from sqrtdk.system import errors

LISTED = 60
"""Maximum number of names in a message."""


class ConfigError(errors.UserError):
    """An invalid configuration; the message is one line for the user."""


class FormError(ConfigError):
    """A key in a form that no command takes; the message shows the form that works.

    `instead` are all overrides of the command with that form, or None if they cannot be tried.
    The key is one of `experiment`.
    """

    def __init__(self, message: str, experiment: str, instead: list[str] | None = None) -> None:
        super().__init__(message)
        self.experiment, self.instead = experiment, instead


def invalid_value(key: str, value: object, allowed: str, known: Iterable[str] = ()) -> ConfigError:
    """Return the error for a bad value: key, value, what is allowed and the nearest name."""
    return ConfigError(f"{errors.not_allowed(key, value, allowed)}{nearest(value, known)}")


def unknown(
    key: object, known: Iterable[str], where: str = "", form: Callable[[str], str] = str
) -> ConfigError:
    """Return the error for an unknown key, suggesting the closest known one in a form of it."""
    known = sorted(known)
    if isinstance(key, str) and "." in key and not where:
        # A config file may contain such a key.
        top, *rest = key.split(".")
        if top in known and all(rest):
            way = nested([top, *rest], "VALUE")
            return ConfigError(f"{key}: a key with dots is not allowed; allowed: {way}")
    hint = nearest(key, known, form)
    return ConfigError(f"unknown key {shorten(str(key))}{where}; known: {listing(known)}{hint}")


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


def given_twice(key: str, values: Sequence[str] = ()) -> ConfigError:
    """Return the error for a repeated key: otherwise the last value would win silently.

    `values` are the texts that the command line has for it. A shell makes several words of one
    with braces: `x={a:1,b:2}` becomes `x=a:1 x=b:2`.
    """
    message = f"{key} is given twice; give it once, a list for several values"
    if len(values) > 1 and all(re.search(r"\w: *[^ =]", text) for text in values):
        before = re.sub(r"[^=:{ ]*$", "", _common(values))
        rest = [text.removeprefix(before) for text in values]
        after = _common([text[::-1] for text in rest])[::-1]
        after = re.sub(r"^[^}]*", "", after)
        parts = ",".join(text.removesuffix(after) for text in rest)
        text = f"{before}{{{parts}}}{after}"
        text = text if key == "hydra" else re.sub(r":(?=\S)", ": ", text)
        message += f". A shell splits braces without quotes: {key}='{text}'"
    return ConfigError(message)


def _common(texts: Sequence[str]) -> str:
    """Return the characters with which all texts begin."""
    same = itertools.takewhile(lambda found: len(set(found)) == 1, zip(*texts, strict=False))
    return "".join(found[0] for found in same)


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
