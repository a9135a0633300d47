"""Standard input, output and error, also where the caller closed them or nobody reads."""

import contextlib
import os
import sys


def ensure() -> None:
    """Open /dev/null in place of each standard stream that is closed.

    Otherwise the next file that is opened gets its number, and what is printed lands in the file.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def say(text: str, *, end: str = "\n") -> None:
    """Print to standard output at once.

    Raises OSError with words of its own, because a pipe or file has no name, and BrokenPipeError
    where its reader has gone.
    """
    try:
        print(text, end=end, flush=True)
    except OSError as error:
        # Python would try once more at its end, and say so in lines of its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise type(error)(f"cannot write to standard output: {error.strerror}") from None


def warn(line: str) -> None:
    """Print a line of the project's to standard error, if that takes one."""
    with contextlib.suppress(OSError):
        print(f"sqrtdk: {line}", file=sys.stderr, flush=True)
