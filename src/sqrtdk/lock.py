"""One run at a time in a folder: a lock that a dead process never holds."""

import atexit
import errno
import fcntl
import os
import socket
from pathlib import Path
from typing import TextIO

import psutil

NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
"""What file systems without locks answer; some network ones are mounted so."""


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
    """Lock by a file that only one process can create."""
    mine = f"{socket.gethostname()} {os.getpid()}\n"
    while True:
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(mine)
        except FileExistsError:
            try:
                holder = path.read_text(encoding="utf-8", errors="replace").strip()
            except FileNotFoundError:
                continue
            host, _, number = holder.rpartition(" ")
            here = host == socket.gethostname() and number.isdecimal()
            if not (here and not psutil.pid_exists(int(number))):
                raise LockedError(f"{holder}, by {path}") from None
            # Its process is dead. What is moved away may be another's by now, who was faster.
            stale = path.with_name(f".lock.{os.getpid()}")
            try:
                os.rename(path, stale)
            except FileNotFoundError:
                continue
            if stale.read_text(encoding="utf-8", errors="replace").strip() != holder:
                os.rename(stale, path)
                continue
            stale.unlink()
        else:
            atexit.register(path.unlink, missing_ok=True)
            return


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
