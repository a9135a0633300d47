"""Write files so that they are whole or absent."""

import os
import tempfile
from pathlib import Path

PARTIAL = ".partial"
"""Suffix of temporary files (`.NAME....partial`)."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that it is whole or absent, even if the process or the machine dies."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(PARTIAL, f".{path.name}.", path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
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
