"""What is said where a disk takes no more: one line, with the folder and what to do.

A job says it to a log on the same disk, which may keep nothing of it; so who reads no reason there
asks the disk itself.
"""

import errno
import os
import re
import tempfile
from pathlib import Path

ANSWERS = {
    errno.ENOSPC: ("the disk of {} is full", "make room on it (df, df -i)"),
    errno.EDQUOT: ("the disk quota of {} is used up", "make room on that disk"),
    errno.EROFS: ("{} is on a read-only disk", "make it writable"),
    errno.EIO: ("the disk of {} fails (input/output error)", "see to the disk"),
    errno.EACCES: ("{} may not be written or read", "change its permissions"),
    errno.EPERM: ("{} may not be changed", "change its permissions"),
    errno.ENOTDIR: ("a file stands where {} needs a folder", "move that file away"),
    errno.EEXIST: ("a file stands where {} should be a folder", "move that file away"),
    errno.EISDIR: ("a folder stands where {} should be a file", "move that folder away"),
}
"""For each fault of a disk, or of what lies on it, what is wrong and what to do about it."""

ROOM = 2**20
"""Bytes that a disk must still take. No more, because other jobs may be writing."""


def fault(text: str) -> str | None:
    """The line for an error's text that tells of a disk's fault, or None where it does not."""
    for number, path in re.findall(r"\[Errno (\d+)\] [^:\n]*(?:: '([^'\n]+)')?", text):
        if int(number) in ANSWERS:
            what, remedy = ANSWERS[int(number)]
            return (
                f"sqrtdk: {what.format(Path(path).absolute())}; {remedy}, then give the same "
                "command again: what is finished is kept"
            )
    return None


def ask(folder: Path) -> str | None:
    """The line for what a disk answers to being written to, or None where it takes some more."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(ROOM))
            file.flush()
            # Some file systems say only here that there is no room.
            os.fsync(file.fileno())
    except OSError as error:
        return fault(f"[Errno {error.errno}] : '{folder}'")
    return None
