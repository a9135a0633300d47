"""Run a module as a command: user errors print one line and exit with status 2."""

import os
import sys
from collections.abc import Callable

from sqrtdk.system import stdio
from sqrtdk.system.errors import MistakeError, answer


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
    running = os.path.join(os.path.dirname(os.path.dirname(__file__)), "__init__.py")
    if os.path.exists(here) and not os.path.samefile(here, running):
        source = os.path.dirname(os.path.dirname(running))
        answer(
            MistakeError(
                f"this environment has the code of {source}, not of this folder; "
                "set PYTHONPATH=src, or use the environment of this folder"
            )
        )
