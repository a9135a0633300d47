"""Start what the Snakefile builds: environment of the jobs, lock of results/, progress log."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from snakemake.exceptions import WorkflowError

from sqrtdk.config import limits
from sqrtdk.storage import guards
from sqrtdk.system import disk, interrupts, lock
from sqrtdk.workflow import environment, progress, recovery

RESULTS = Path("results")


def prepare(arguments: Sequence[str]) -> None:
    """Prepare the environment of jobs, which also tells them the command line."""
    environment.prepare_jobs()
    interrupts.install()
    # Not a parameter of a rule, because a new command line alone makes no result stale.
    os.environ["SQRTDK_COMMAND"] = _shortened(shlex.join(["snakemake", *arguments]))


def _shortened(command: str) -> str:
    # Every job has it in its environment, and Linux limits a variable to 128 KiB.
    most = limits.MOST_BYTES // 4
    return command if len(command) <= most else f"{command[:most]}…"


def begin(folder: Path, also: Sequence[Path], refusal: str | None) -> TextIO | None:
    """Take the lock of results/, or refuse a second run; open the progress log in a folder.

    `also` are other folders that jobs write to. The returned file holds the lock while it is open;
    there is none on a file system without locks. Raises WorkflowError, also with a `refusal`.
    """
    # Snakemake has replaced our handler in the meantime.
    interrupts.install()
    try:
        RESULTS.mkdir(exist_ok=True)
        held = lock.take(RESULTS)
    except OSError as error:
        raise _unwritable(error) from None
    except lock.LockedError as error:
        raise WorkflowError(
            f"sqrtdk: another run is at work in {RESULTS}/ ({error}); wait for it or stop it, "
            "then run this command again"
        ) from None
    written = [*also, folder]
    link = guards.escaping_symlink(RESULTS, written)
    if link is not None:
        raise WorkflowError(f"sqrtdk: {link} leads out of {RESULTS}/; nothing is written there")
    recovery.sweep(written)
    if refusal is not None:
        raise WorkflowError(refusal)
    try:
        progress.keep_log(folder / "logs" / "progress.log")
    except OSError as error:
        raise _unwritable(error) from None
    return held


def _unwritable(error: OSError) -> WorkflowError:
    return WorkflowError(disk.explain_os_error(str(error)) or f"sqrtdk: {error}")
