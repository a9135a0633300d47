"""Run a module as a command: user errors print one line and exit with status 2."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import sqrtdk
from sqrtdk.system import stdio
from sqrtdk.system.errors import UserError, exit_with


def run(main: Callable[[], None], *names: str) -> None:
    """Call a module's `main`, whose arguments have these names; `NAME...` is any number of them.

    Without names, the module parses its own arguments.

    User errors and errors of the operating system end in one line. Any other error is a bug and
    keeps its traceback.
    """
    stdio.ensure()
    check_code()
    given = sys.argv[1:]
    if names and {"-h", "--help", "--version"} & set(given[:1]):
        answer_option(given[0], names)
        return
    needed = sum(not name.endswith("...") for name in names)
    try:
        if names and (len(given) < needed or (len(given) > needed and needed == len(names))):
            count = f"{len(given)} {'argument' if len(given) == 1 else 'arguments'}"
            raise UserError(f"{count}, not {' '.join(names)}")
        main()
    except KeyboardInterrupt:
        stop()
    except (UserError, OSError) as error:
        exit_with(error)


def stop() -> NoReturn:
    """Exit after Ctrl-C with one line and the status of a process that the signal has ended."""
    stdio.warn("stopped by Ctrl-C; no file is half written")
    sys.exit(128 + signal.SIGINT)


def answer_option(option: str, names: Sequence[str]) -> None:
    """Print the version, or what the running module does and the names of its arguments."""
    module = sys.modules["__main__"]
    spec = getattr(module, "__spec__", None)
    name = (spec.name if spec else __package__ or "").removesuffix(".__main__")
    about = (module.__doc__ or "").strip()
    usage = f"usage: python -m {name} {' '.join(names)}"
    try:
        stdio.say(version() if option == "--version" else f"{usage}\n\n{about}")
    except OSError as error:
        exit_with(error)


def version() -> str:
    """Return the name and the version of this package."""
    return f"sqrtdk {sqrtdk.__version__}"


def check_code() -> None:
    """Stop if the current folder has other code of this package than the running process.

    An environment that was copied with its folder, or is still active from another folder, would
    otherwise silently run its own code.
    """
    # A pipeline chooses the code of its jobs, which may be in any folder.
    if "SQRTDK_SOURCE" in os.environ:
        return
    here = os.path.join("src", "sqrtdk", "__init__.py")
    running = os.path.join(os.path.dirname(os.path.dirname(__file__)), "__init__.py")
    if os.path.exists(here) and not os.path.samefile(here, running):
        source = os.path.dirname(os.path.dirname(running))
        exit_with(
            UserError(
                f"this environment has the code of {source}, not of this folder; "
                "set PYTHONPATH=src, or use the environment of this folder"
            )
        )
