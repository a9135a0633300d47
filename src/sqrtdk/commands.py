"""What every module is as a command: a mistake of whoever gave it ends in one line, exit code 2.

This module imports nothing heavy, because every shard job reads it.
"""

import argparse
import difflib
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from sqrtdk import disk, stdio


class MistakeError(Exception):
    """What a person asked for or a file holds cannot be; the message is one line that says why."""


class Parser(argparse.ArgumentParser):
    """argparse that answers in one line."""

    def error(self, message: str) -> NoReturn:
        """End with what is wrong, without the usage before it."""
        refuse_option(self, message)


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


def run(main: Callable[[], None], *names: str) -> None:
    """Call a module's `main`, whose arguments have these names; `NAME...` is any number.

    Without names they are left to the module.

    A mistake and what the operating system refuses is answered; any other error is the program's.
    """
    stdio.ensure()
    check_code()
    given = sys.argv[1:]
    needed = sum(not name.endswith("...") for name in names)
    try:
        if names and (len(given) < needed or (len(given) > needed and needed == len(names))):
            count = f"{len(given)} {'argument' if len(given) == 1 else 'arguments'}"
            raise MistakeError(f"{count}, not {' '.join(names)}")
        main()
    except (MistakeError, OSError) as error:
        answer(error)


def check_code() -> None:
    """End if the current folder has other code of this package than what is running.

    An environment that was copied with its folder, or is still active from another folder, would
    otherwise run its own code without a word.
    """
    # A pipeline has chosen the code of its jobs, whose folder may be any.
    if "SQRTDK_SOURCE" in os.environ:
        return
    here = os.path.join("src", "sqrtdk", "__init__.py")
    running = os.path.join(os.path.dirname(__file__), "__init__.py")
    if os.path.exists(here) and not os.path.samefile(here, running):
        source = os.path.dirname(os.path.dirname(running))
        answer(
            MistakeError(
                f"this environment has the code of {source}, not of this folder; "
                "set PYTHONPATH=src, or use the environment of this folder"
            )
        )


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


def whole(text: str) -> int:
    """A whole number from 1, as `Parser` reads it."""
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: whole numbers from 1")
    return int(text)


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
