"""Translate disk errors into one line that names the path and a remedy.

A job's log may be on the same full disk. If the log gives no reason, `probe` tests the disk
directly.
"""

import errno
import os
import re
import tempfile
from pathlib import Path

MESSAGES = {
    errno.ENOSPC: ("the disk of {} is full", "make room on it (df, df -i)"),
    errno.EDQUOT: ("the disk quota of {} is used up", "make room on that disk"),
    errno.EROFS: ("{} is on a read-only disk", "make it writable"),
    errno.EIO: ("the disk of {} fails (input/output error)", "check the disk"),
    errno.EACCES: ("{} may not be written or read", "change its permissions"),
    errno.EPERM: ("{} may not be changed", "change its permissions"),
    errno.ENOTDIR: ("a file is where {} needs a folder", "move that file away"),
    errno.EEXIST: ("a file is where {} should be a folder", "move that file away"),
    errno.EISDIR: ("a folder is where {} should be a file", "move that folder away"),
}
"""For each errno, the message with a placeholder for the path, and the remedy."""

PROBE_BYTES = 2**20
"""Bytes that the probe writes. No more, because other jobs may be writing."""


def explain_os_error(text: str) -> str | None:
    """Return the line for an error's text that reports a disk error, or None for other errors."""
    for number, path in re.findall(r"\[Errno (\d+)\] [^:\n]*(?:: '([^'\n]+)')?", text):
        if int(number) in MESSAGES:
            what, remedy = MESSAGES[int(number)]
            return (
                f"sqrtdk: {what.format(Path(path).absolute())}; {remedy}, then run the same "
                "command again: finished results are kept"
            )
    return None


def probe(folder: Path) -> str | None:
    """Return the line for the error of a test write to a disk, or None if it succeeds."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            # Some file systems report a full disk only here.
            os.fsync(file.fileno())
    except OSError as error:
        return explain_os_error(f"[Errno {error.errno}] : '{folder}'")
    return None
