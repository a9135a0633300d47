"""Write files so that they are whole or absent."""

import errno
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

PARTIAL = ".partial"
"""Suffix of temporary files (`.NAME....partial`)."""

ROOM = 2**20
"""Bytes of the test write, enough for most tables."""


def try_writing(path: Path) -> None:
    """Raise OSError if `write_atomically` could not write a file now. Leaves nothing behind."""
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    with tempfile.NamedTemporaryFile(
        suffix=PARTIAL, prefix=f".{path.name}.", dir=path.parent
    ) as file:
        file.write(bytes(ROOM))
        file.flush()
        # Some file systems report a full disk only here.
        os.fsync(file.fileno())


def write_atomically(
    path: Path, content: str | bytes | Iterable[bytes], *, before: Callable[[], None] | None = None
) -> None:
    """Write a file so that it is whole or absent, even if the process or the machine dies.

    The content may come in pieces. `before` is called when all of it is on the disk, before the
    file has its name.
    """
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(PARTIAL, f".{path.name}.", path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        if before is not None:
            before()
        # mkstemp creates private files; a result should be as readable as any other new file.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            # The system does not name the file that a full disk has no room for.
            error.filename = str(path)
        raise
