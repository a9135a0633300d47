"""Read the logs of failed jobs: what a job said, and whether it concerns the whole run."""

import re
from pathlib import Path

from sqrtdk.schema import Document
from sqrtdk.system import disk

MOST_LINES = 40
"""Maximum lines of one log, and of the list of failures."""

CELLS_FAILED = re.compile(r"sqrtdk: (\d+) of \d+ cells failed:")
"""The first line of the list of failed cells by `cells.rows`."""

REST = re.compile("sbatch call:|Detailed failure reason unavailable|For further error details see")
"""Where what a batch system says of a job ends, and advice or its own command begins."""


def log_of(event: Document) -> list[str]:
    """Return the end of a failed job's log: the cells that it names, or its last lines."""
    for path in own_logs(event):
        lines = lines_of(path)
        heads = [
            (place, head) for place, line in enumerate(lines) if (head := CELLS_FAILED.match(line))
        ]
        if heads:
            place, head = heads[-1]
            return lines[place : place + 1 + int(head[1])]
        if lines:
            return lines[-MOST_LINES:]
    # On a cluster a job may have ended before it could write anything itself.
    others = [path for path in event["log"] if path not in own_logs(event)]
    return [line for path in others for line in lines_of(path)][-MOST_LINES:]


def batch_system_says(event: Document) -> str:
    """Return in one line why the batch system refused or ended a failed job, or "".

    >>> batch_system_says({"rule_msg": "SLURM sbatch failed: no such node.  sbatch call: x"})
    'SLURM sbatch failed: no such node'
    """
    text = " ".join((event.get("rule_msg") or "").split())
    return REST.split(text)[0].rstrip(". ")


def own_logs(event: Document) -> list[str]:
    """Return the logs of a failed job's rule, without those of the batch system."""
    return [path for path in event["log"] if ".snakemake" not in Path(path).parts]


def lines_of(path: str) -> list[str]:
    """Return the lines of a file, none if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def reason(log: str) -> str | None:
    """Return the last line of a failed job's log, unless it is about that job alone.

    The numbers of a cell are, and so is a signal: a batch system may cancel one job.
    """
    last = (lines_of(log) or [""])[-1]
    if last.startswith("sqrtdk: "):
        return None if last.startswith("sqrtdk: stopped by ") else last
    return disk.explain_os_error(last)
