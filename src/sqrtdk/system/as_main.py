"""Run a module in this process as `python -m MODULE` would. Imports nothing of the project."""

import atexit
import contextlib
import runpy
import sys
import traceback
from collections.abc import Sequence


def execute(words: Sequence[str]) -> int:
    """Run a module and end it as the interpreter would; return the exit code."""
    sys.argv = list(words)
    # It is run from its file, as the interpreter does it.
    for name in (words[0], f"{words[0]}.__main__"):
        if not hasattr(sys.modules.get(name), "__path__"):
            sys.modules.pop(name, None)
    code = 0
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # A full disk, or a closed pipe.
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return code
