"""What every module is as a command: a mistake of whoever gave it ends in one line, exit code 2.

This module imports nothing heavy, because every shard job reads it.
"""

import argparse
import difflib
import json
import sys
from typing import Any, NoReturn

from sqrtdk.system import disk, stdio


class MistakeError(Exception):
    """What a person asked for or a file holds cannot be; the message is one line that says why."""


def refuse_option(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """End with one line for options that a parser cannot read, and the nearest that it knows."""
    # Nothing public lists the options of a parser.
    known = list(getattr(parser, "_option_string_actions", {}))
    near = [
        f"; did you mean {option}?"
        for word in message.split()
        if word.startswith("--") and message.startswith("unrecognized")
        for option in difflib.get_close_matches(word, known, n=1)
    ]
    answer(MistakeError(f"{message}{''.join(near[:1])}; --help says what there is"))


def answer(error: BaseException) -> NoReturn:
    """End with the one line that says what to mend."""
    fault = disk.fault(str(error))
    stdio.warn(fault.removeprefix("sqrtdk: ") if fault else one_line(error))
    sys.exit(2)


def one_line(error: BaseException) -> str:
    """The first line of a message, which is where libraries say what is wrong."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}".replace("\n", " ")
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # OmegaConf says on a further line where it is.
    key = getattr(error, "full_key", "")
    return f"{key}: {lines[0]}" if key else lines[0]


def read_json(text: str, what: str) -> dict[str, Any]:
    """The object that a JSON text is. Raises MistakeError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MistakeError(f"{shorten(text)} is not JSON: {one_line(error)}") from None
    if not isinstance(found, dict):
        raise MistakeError(f"{shorten(text)} is not {what}: no JSON object")
    return found


def shorten(value: object) -> str:
    """A value as a message shows it."""
    # So much of a long text, because all of it may be megabytes.
    shown = repr(value[:100] if isinstance(value, str) else value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
