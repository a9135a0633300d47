"""Python's start-up hook: the faults of a campaign, in every process of a run.

`FAULT_FILE`, a regular expression of a path, and `FAULT_MOMENT`, one of the names below, kill the
whole process group inside the writing of that file. `FAULT_NO_LOCKS` makes the file system behave
as one without locks. Without these variables nothing happens.
"""

import builtins
import errno
import fcntl
import io
import os
import re
import signal
from typing import Any, NoReturn

FILE, MOMENT = os.environ.get("FAULT_FILE"), os.environ.get("FAULT_MOMENT")


def die() -> NoReturn:
    """End this process and its whole group without a chance to clean up."""
    os.killpg(0, signal.SIGKILL)
    raise SystemExit


def is_meant(path: Any) -> bool:
    """Return whether a path is the file, or the temporary file that becomes it."""
    return FILE is not None and re.search(FILE, str(path)) is not None


def opened(open_: Any) -> Any:
    """Wrap `open` to die when the file was created and is still empty."""

    def deadly(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        result = open_(file, mode, *args, **kwargs)
        if is_meant(file) and set(mode) & set("wxa"):
            die()
        return result

    return deadly


def created(open_: Any) -> Any:
    """Wrap `os.open` to die when the file was created."""

    def deadly(file: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
        result = open_(file, flags, *args, **kwargs)
        if is_meant(file) and flags & os.O_CREAT:
            die()
        return result

    return deadly


def half(fsync: Any) -> Any:
    """Wrap `fsync` to die with half of the file on disk."""

    def deadly(handle: int) -> None:
        if is_meant(os.readlink(f"/proc/self/fd/{handle}")):
            os.ftruncate(handle, os.fstat(handle).st_size // 2)
            die()
        fsync(handle)

    return deadly


def named(replace: Any, *, after: bool) -> Any:
    """Wrap `replace` to die just before or just after the file gets its name."""

    def deadly(source: Any, target: Any, **kwargs: Any) -> None:
        if after or not is_meant(target):
            replace(source, target, **kwargs)
        if is_meant(target):
            die()

    return deadly


if MOMENT == "opened":
    # pathlib uses one name, everything else the other.
    io.open = builtins.open = opened(open)
    os.open = created(os.open)
elif MOMENT == "half":
    os.fsync = half(os.fsync)
elif MOMENT in ("before", "after"):
    os.replace = named(os.replace, after=MOMENT == "after")

if "FAULT_NO_LOCKS" in os.environ:

    def refuse(*_: Any) -> NoReturn:
        """Fail like file systems without locks."""
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    fcntl.flock = refuse
