"""Write the parts of a message about a wrong value: the value itself and the nearest name."""

import difflib
from collections.abc import Callable, Iterable

LONGEST = 80
"""Characters of a value that a message shows."""


def nearest(given: object, known: Iterable[str], form: Callable[[str], str] = str) -> str:
    """Return `; did you mean NAME?` with the nearest known name in a form, or nothing.

    >>> nearest("Scalin", ["scaling", "seed"]), nearest("x", ["scaling", "seed"])
    ('; did you mean scaling?', '')
    """
    # A name that differs only in case is closer than any other one.
    folded = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(given).lower(), folded, n=1, cutoff=0.5)
    # No value is near no name.
    return f"; did you mean {form(folded[near[0]])}?" if near and str(given) != "None" else ""


def shorten(value: object) -> str:
    """Return a value as messages show it, on one line; of an array its shape and type."""
    shape, dtype = getattr(value, "shape", ()), getattr(value, "dtype", None)
    if dtype is not None and shape:
        return f"an array of shape {shape} and type {dtype}"
    try:
        # Cut a long text first, because all of it may be megabytes.
        text = " ".join(repr(value[:100] if isinstance(value, str) else value).split())
    except ValueError:
        # Python prints no integer of more than 4,300 digits.
        text = f"{type(value).__name__} of too many digits"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
