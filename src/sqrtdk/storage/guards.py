"""Notice files that were changed after they were written, and links that lead out."""

import hashlib
import os
from pathlib import Path

from sqrtdk.storage.atomic import write_atomically
from sqrtdk.storage.tables import TableError


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


CHANGED = "was changed after it was written"
REMEDY = "move it away or delete it, and it is made again"


def write_guarded(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, and beside it a digest that tells whether it changed."""
    data = content.encode() if isinstance(content, str) else content
    # First the digest: what was the file before was deleted when its job began.
    write_atomically(_guard(path), f"{hashlib.sha256(data).hexdigest()}\n")
    write_atomically(path, data)


def changed(folder: Path) -> list[Path]:
    """The files below a folder that `write_guarded` wrote and that are not what it wrote."""
    guards = sorted(folder.rglob(".*.sha256"))
    files = (guard.with_name(guard.name[1 : -len(".sha256")]) for guard in guards)
    return [path for path in files if is_changed(path)]


def refuse_changed(path: Path) -> None:
    """Raise TableError for a file that is not what was written."""
    if is_changed(path):
        raise TableError(f"{path} {CHANGED}; {REMEDY}")


def is_changed(path: Path) -> bool:
    """Whether a file that `write_guarded` wrote is there and is not what it wrote."""
    try:
        content, guard = path.read_bytes(), _guard(path).read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        return False
    except OSError:
        # What cannot be read any more is not what was written.
        return True
    return hashlib.sha256(content).hexdigest().encode() != guard.strip()


def _guard(path: Path) -> Path:
    return path.parent / f".{path.name}.sha256"
