"""Suggest the nearest valid name in the answer to a wrong one."""

import difflib
from collections.abc import Callable, Iterable


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
