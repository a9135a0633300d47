"""Stopping a run: at once, with one line, and with nothing lost.

Every file is written whole or not at all, so jobs may die at any moment. Snakemake's own handler of
SIGTERM waits for the jobs, and waits for ever where the signal comes while it holds its lock.
"""

import contextlib
import os
import signal
from types import FrameType
from typing import NoReturn

import psutil

WORDS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "a closed terminal"}


def install() -> None:
    """Let each of these signals stop this process and all that it started."""
    for number in WORDS:
        # A run that was started to outlive its terminal (nohup) is left to.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)


def stop(number: int, frame: FrameType | None) -> None:
    """Kill the jobs, say what it means, and end with the code that shells give a signal."""
    end(
        f"sqrtdk: stopped by {WORDS[signal.Signals(number)]}; what is finished is kept, and "
        "the same command goes on from there",
        128 + number,
    )


def end(line: str, code: int) -> NoReturn:
    """Say one line, kill the jobs, and end this process at once, from whatever thread."""
    try:
        # First, because Snakemake itself may end meanwhile.
        with contextlib.suppress(OSError):
            # Not print: its buffer may be locked by what was interrupted.
            os.write(_alone(), f"\n{line}\n".encode())
        for _ in range(3):
            # Again, because a thread of Snakemake may start the next job where one has ended.
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.kill()
    finally:
        # Whatever fails here, the terminal's end among it, Snakemake must not go on without jobs.
        os._exit(code)


def _alone() -> int:
    """Standard error for this alone: what other threads still say of killed jobs goes nowhere."""
    with contextlib.suppress(OSError):
        said, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        return said
    return 2
