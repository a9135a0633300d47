"""Stop a run on a signal: at once, with one line, and without losing results.

Every file is written whole or not at all, so jobs may die at any moment. Snakemake's own handler of
SIGTERM waits for the jobs, and deadlocks if the signal arrives while Snakemake holds its lock.
"""

import contextlib
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import psutil

_hooks: list[Callable[[], str]] = []
"""What else has to be stopped, with the line to print about it."""

WORDS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "a closed terminal"}


def install() -> None:
    """Let each of these signals stop this process and all of its children."""
    for number in WORDS:
        # Keep ignored signals ignored: nohup starts runs that outlive their terminal.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)


def when_stopped(hook: Callable[[], str]) -> None:
    """Call a function before this process is ended here; it returns a line to print, or ""."""
    _hooks.append(hook)


def stop(number: int, frame: FrameType | None) -> None:
    """Kill the jobs, print what happened, and exit with the code that shells use for a signal."""
    end(
        f"sqrtdk: stopped by {WORDS[signal.Signals(number)]}; finished results are kept; "
        "run the same command to resume",
        128 + number,
    )


def end(line: str, code: int) -> NoReturn:
    """Print one line, kill the jobs, and exit this process at once, from any thread."""
    try:
        # First, because Snakemake itself may exit in the meantime.
        terminal = _alone()
        with contextlib.suppress(OSError):
            # Not print: the interrupted code may hold the lock of its buffer.
            os.write(terminal, f"\n{line}\n".encode())
        # Each once: a second Ctrl-C does not wait for them.
        while _hooks:
            with contextlib.suppress(Exception):
                said = _hooks.pop()()
                os.write(terminal, f"sqrtdk: {said}\n".encode() if said else b"")
        for _ in range(3):
            # Repeated, because a thread of Snakemake may start a job when another one ends.
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.kill()
    finally:
        # Whatever fails here (the terminal may be gone), Snakemake must not continue.
        os._exit(code)


def _alone() -> int:
    """Return a private copy of standard error; later writes by other threads are discarded."""
    with contextlib.suppress(OSError):
        said, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        return said
    return 2
