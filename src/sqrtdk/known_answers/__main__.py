"""Try a function on the known answers: `python -m sqrtdk.known_answers your_module:function`."""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from sqrtdk.known_answers.check import Result, check
from sqrtdk.system import command_line, errors, stdio


def load(text: str) -> Callable[..., Any]:
    """Return the function that `module:function` names, looked for in this folder too.

    Raises UserError.
    """
    module, colon, name = text.partition(":")
    if not (colon and all(part.isidentifier() for part in (*module.split("."), name))):
        raise errors.UserError(f"{text!r} is not allowed; allowed: your_module:function")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:
        # Importing runs the user's code, which may fail in any way.
        raise errors.UserError(f"{text}: {errors.one_line(error)}") from None
    if not callable(found):
        raise errors.UserError(f"{text} is not a function")
    function: Callable[..., Any] = found
    return function


def main() -> None:
    """Print every deviation and the count; exit with status 1 if there is one."""
    results = list(check(load(sys.argv[1])))
    tried = [one for one in results if isinstance(one, Result)]
    failed = [one for one in tried if not one.passed]
    for one in failed:
        stdio.say(
            f"{one.case}: {one.quantity} is off by {one.error:.3g}; allowed: {one.allowed:.1g}"
        )
    for name in results:
        if isinstance(name, str):
            stdio.say(f"{name}: not tried, because the function does not take its arguments")
    stdio.say(f"{len(tried) - len(failed)} passed, {len(failed)} failed")
    if failed or not tried:
        sys.exit(1)


if __name__ == "__main__":
    command_line.run(main, "MODULE:FUNCTION")
