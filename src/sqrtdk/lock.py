"""One run at a time in a folder: a lock that a dead process never holds."""

import atexit
import contextlib
import errno
import fcntl
import os
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import TextIO

import psutil

NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
"""What file systems without locks answer; some network ones are mounted so."""


BEAT = 10.0
"""Seconds between two signs of life, where a lock is a file."""

SILENCE = 120.0
"""Seconds without one after which a process that cannot be seen is held for dead. Many beats,
because a network file system may show changes a minute late."""


class LockedError(Exception):
    """Another run holds the folder; the message says which."""


def take(folder: Path) -> TextIO | None:
    """Lock a folder for as long as this process lives; keep what is returned.

    By the kernel, which frees it however the process ends. Where the file system has no locks, by
    a file that names host and process. Raises LockedError where another run is at work, OSError
    where the folder cannot be written to.
    """
    # Not through a link, which would empty what it leads to.
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
        _take_by_name(folder / ".lock.held")
        return None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def _take_by_name(path: Path) -> None:
    """Lock by a file that only one process can create, and that it keeps touching."""
    mine = f"{socket.gethostname()} {os.getpid()}"
    created = False
    while True:
        try:
            with path.open("x", encoding="utf-8") as file:
                created = True
                file.write(f"{mine}\n")
        except FileExistsError:
            try:
                holder = path.read_text(encoding="utf-8", errors="replace").strip()
                dead = _is_dead(holder, path)
            except FileNotFoundError:
                continue
            if not dead:
                raise LockedError(f"{holder}, by {path}") from None
            # What is moved away may be another's by now, who was faster.
            stale = path.with_name(f"{path.name}.{os.getpid()}")
            try:
                os.rename(path, stale)
            except FileNotFoundError:
                continue
            if stale.read_text(encoding="utf-8", errors="replace").strip() != holder:
                os.rename(stale, path)
                continue
            stale.unlink()
        except OSError:
            if created:
                # On a full disk nobody's name would be in it.
                path.unlink(missing_ok=True)
            raise
        else:
            threading.Thread(target=_beat, args=(path, mine), daemon=True).start()
            atexit.register(_release, path, mine)
            return


def _beat(path: Path, mine: str) -> None:
    """Touch the file for as long as this process lives and the file is its own."""
    while True:
        # A network file system may fail once and not the next time.
        with contextlib.suppress(OSError):
            if not _is_mine(path, mine):
                return
            os.utime(path)
        time.sleep(BEAT)


def _release(path: Path, mine: str) -> None:
    with contextlib.suppress(OSError):
        if _is_mine(path, mine):
            path.unlink()


def _is_mine(path: Path, mine: str) -> bool:
    # Not for ever: a process that was asleep for long may have been held for dead.
    return path.read_text(encoding="utf-8", errors="replace").strip() == mine


def _is_dead(holder: str, path: Path) -> bool:
    """Whether the process that a lock file names is gone, as far as can be seen from here."""
    host, _, number = holder.rpartition(" ")
    if host == socket.gethostname() and number.isdecimal() and not psutil.pid_exists(int(number)):
        return True
    # Another machine's process, or one that has got the number of a dead one. The clock that both
    # files have is the file system's.
    with tempfile.NamedTemporaryFile(prefix=".lock.", dir=path.parent) as now:
        silent = os.stat(now.name).st_mtime - path.stat().st_mtime
    return silent > SILENCE


def links_out(folder: Path, below: list[Path]) -> Path | None:
    """The first symbolic link, in or at some of a folder's, that leads out of the folder."""
    inside = folder.resolve()
    for path in below:
        if not path.resolve().is_relative_to(inside):
            return path
        for at, folders, files in os.walk(path):
            # Files as well: a log is written into whatever its name stands for.
            for one in (Path(at, name) for name in (*folders, *files)):
                if one.is_symlink() and not one.resolve().is_relative_to(inside):
                    return one
    return None
