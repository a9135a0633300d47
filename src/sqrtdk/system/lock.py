"""Allow one run at a time in a folder, with a lock that a dead process never holds.

The kernel keeps the lock (`flock`). On a file system without flock, files do: `.lock.held.1`,
`.lock.held.2` and so on, each created by one process only and naming its host and process. The
file with the highest number is the lock. Two rules keep two processes from holding it:

- A process takes the lock over by creating the next number, never by moving or deleting the file
  of another process. Two that find the same dead owner want the same number; one of them gets it.
- The highest number is never deleted, not even when its owner ends: then its content says so.
  A process that was slow therefore sees that there is a higher number than its own, and yields.

filelock and flufl.lock were considered. filelock (4.3) takes over by swapping two names, which NFS
and Lustre cannot do, so that a killed run would block the folder for ever there, as does a lock
file that is still empty. flufl.lock deletes the old lock by its name, whoever has it by then.
"""

import atexit
import contextlib
import errno
import fcntl
import os
import re
import socket
import threading
from pathlib import Path
from typing import TextIO

import psutil

NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
"""Error numbers of file systems without flock, such as some NFS and Lustre mounts."""

HELD = ".lock.held."
"""Name of a lock file before its number, on a file system without flock."""

RELEASED = "released"
"""Content of a lock file whose owner has ended."""

HEARTBEAT_S = 10.0
"""Seconds between two heartbeats of a lock that is a file."""

STALE_S = 120.0
"""Seconds without a heartbeat after which an unreachable process is treated as dead.

Many beats, because a network file system may show changes a minute late.
"""


class LockedError(Exception):
    """Another run holds the folder; the message names it."""


def take(folder: Path) -> TextIO | None:
    """Lock a folder for as long as this process lives; keep the returned file open.

    Raises LockedError if another run is at work, OSError if the folder cannot be written to.
    """
    # Do not follow a link: its target would be truncated.
    opened = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666)
    file = os.fdopen(opened, "a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip()
        file.close()
        raise LockedError(f"process {holder}") from None
    except OSError as error:
        file.close()
        if error.errno not in NO_LOCKS:
            raise
        hold = _take_next(folder)
        threading.Thread(target=hold.beat, daemon=True).start()
        atexit.register(hold.release)
        return None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


class _Hold:
    """A lock file of this process, kept open so that no other file is touched by its name."""

    def __init__(self, path: Path) -> None:
        """Create the file; raises FileExistsError if another process was faster."""
        self._path = path
        self._file = path.open("xb", buffering=0)
        self._ended = threading.Event()
        try:
            self._write(f"{socket.gethostname()} {os.getpid()}")
        except OSError:
            # The disk is full, and without a name nobody could tell whether the owner is alive.
            self.withdraw()
            raise

    def _write(self, content: str) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{content}\n".encode())

    def withdraw(self) -> None:
        """Delete the file again, before the lock counts as taken."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def beat(self) -> None:
        """Update the file's time regularly until the lock is released."""
        while not self._ended.wait(HEARTBEAT_S):
            # A network file system may fail once and not the next time.
            with contextlib.suppress(OSError):
                os.utime(self._file.fileno())

    def release(self) -> None:
        """Release the lock, so that the next process can take it at once."""
        self._ended.set()
        with contextlib.suppress(OSError):
            self._write(RELEASED)


def _take_next(folder: Path) -> _Hold:
    """Take the lock of a folder with files, from a dead owner if necessary."""
    while True:
        newest = max(_numbers(folder), default=0)
        if newest:
            path = folder / f"{HELD}{newest}"
            try:
                holder, touched = _read(path)
            except FileNotFoundError:
                # Another process has created a higher one in the meantime.
                continue
            if holder != RELEASED and not _is_dead(holder, touched, folder / ".lock"):
                raise LockedError(f"{holder}, by {path}") from None
        mine = newest + 1
        try:
            hold = _Hold(folder / f"{HELD}{mine}")
        except FileExistsError:
            continue
        numbers = _numbers(folder)
        if max(numbers, default=0) > mine:
            # This process was slow: others have taken the lock and deleted what it had seen.
            hold.withdraw()
            continue
        for number in numbers:
            if number < mine:
                (folder / f"{HELD}{number}").unlink(missing_ok=True)
        return hold


def _numbers(folder: Path) -> list[int]:
    """Return the numbers of the folder's lock files."""
    found = (re.fullmatch(rf"{re.escape(HELD)}([1-9][0-9]*)", name) for name in os.listdir(folder))
    return [int(match[1]) for match in found if match]


def _read(path: Path) -> tuple[str, float]:
    """Return the content of a lock file and its modification time; raises OSError for a link."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        said = file.read(1000).decode(errors="replace").strip()
        return said, os.fstat(file.fileno()).st_mtime


def _is_dead(holder: str, touched: float, clock: Path) -> bool:
    """Return whether the process that a lock file names has ended, as far as this host can tell."""
    host, _, number = holder.rpartition(" ")
    if host == socket.gethostname() and number.isdecimal() and not psutil.pid_exists(int(number)):
        return True
    # A process of another machine, or a reused process number. The clock that all
    # machines have is the file system's.
    os.utime(clock)
    return clock.stat().st_mtime - touched > STALE_S
