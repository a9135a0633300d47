"""User errors: the exception class, and how a command ends with one line and exit code 2.

This module imports nothing heavy, because every shard job imports it.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from sqrtdk.messages import nearest, shorten
from sqrtdk.system import disk, stdio


class UserError(Exception):
    """Invalid user input or file content; the message is a one-line explanation."""


def not_allowed(key: str, value: object, allowed: str) -> UserError:
    """Return the error for a bad value: the key, the value and what is allowed."""
    return UserError(f"{key}: {shorten(value)} is not allowed; allowed: {allowed}")


def refuse_option(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """Exit with one line for unknown options, and suggest the nearest known one."""
    # argparse has no public list of a parser's options.
    known = list(getattr(parser, "_option_string_actions", {}))
    unknown = [word for word in message.split() if word.startswith("--")]
    hints = [nearest(word, known) for word in unknown if message.startswith("unrecognized")]
    exit_with(UserError(f"{message}{next(filter(None, hints), '')}; see --help"))


def exit_with(error: BaseException) -> NoReturn:
    """Print the error as one line and exit with status 2."""
    fault = disk.explain_os_error(str(error))
    stdio.warn(fault.removeprefix("sqrtdk: ") if fault else one_line(error))
    sys.exit(2)


def one_line(error: BaseException) -> str:
    """Return the first line of a message, where libraries say what is wrong."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}".replace("\n", " ")
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # OmegaConf gives the key on a further line.
    key = getattr(error, "full_key", "")
    return f"{key}: {lines[0]}" if key else lines[0]


def read_json(text: str, what: str) -> Mapping[str, Any]:
    """Return the object of a JSON text. Raises UserError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{shorten(text)} is not JSON: {one_line(error)}") from None
    if not isinstance(found, dict):
        raise UserError(f"{shorten(text)} is not {what}: not a JSON object")
    return found
