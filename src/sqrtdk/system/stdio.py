"""Standard input, output and error, also if the caller closed them or nobody reads them."""

import contextlib
import os
import sys


def ensure() -> list[str]:
    """Open /dev/null in place of each standard stream that is closed, and return their names.

    Otherwise the next opened file would get its number, and printed text would go into that file.
    """
    closed = []
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
            closed.append(name)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    return closed


def say(text: str, *, end: str = "\n") -> None:
    """Print to standard output at once.

    Raises OSError with its own message, because a pipe has no name to report, and BrokenPipeError
    if its reader has closed it.
    """
    try:
        print(text, end=end, flush=True)
    except OSError as error:
        # Python would try again at exit, and print its own lines about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise type(error)(f"cannot write to standard output: {error.strerror}") from None


def warn(line: str) -> None:
    """Print one line to standard error, prefixed with the project's name; ignore failures."""
    with contextlib.suppress(OSError):
        print(f"sqrtdk: {line}", file=sys.stderr, flush=True)
