"""Detect files that were changed after they were written, and links that lead out of a folder."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from sqrtdk.storage import checked
from sqrtdk.storage.atomic import write_atomically
from sqrtdk.storage.tables import TableError


def escaping_symlink(folder: Path, below: list[Path]) -> Path | None:
    """Return the first symbolic link, in or at one of a folder's entries, that leads out of it."""
    inside = folder.resolve()
    for path in below:
        if not path.resolve().is_relative_to(inside):
            return path
        for at, folders, files in os.walk(path):
            # Files as well: a log would be written through a link.
            for one in (Path(at, name) for name in (*folders, *files)):
                if one.is_symlink() and not one.resolve().is_relative_to(inside):
                    return one
    return None


CHANGED = "was changed after it was written"
REMEDY = "move it away or delete it; the next run writes it again"


def write_with_checksum(path: Path, content: str | bytes | Iterable[str]) -> None:
    """Write a file whole or not at all, and next to it a digest that detects later changes.

    Pieces of text go to the disk one after the other.
    """
    found = hashlib.sha256()

    def pieces() -> Iterator[bytes]:
        for piece in [content] if isinstance(content, (str, bytes)) else content:
            data = piece.encode() if isinstance(piece, str) else piece
            found.update(data)
            yield data

    def write_digest() -> None:
        write_atomically(_guard(path), f"{found.hexdigest()}\n")

    # The digest has its name first: the previous file was deleted when the job began.
    write_atomically(path, pieces(), before=write_digest)


def changed(folder: Path) -> list[Path]:
    """Return the files below a folder that `write_with_checksum` wrote and were changed since."""
    guards = sorted(folder.rglob(".*.sha256"))
    files = (guard.with_name(guard.name[1 : -len(".sha256")]) for guard in guards)
    return [
        path
        for path in files
        if not checked.holds([path, _guard(path)], partial(_is_unchanged, path))
    ]


def refuse_changed(path: Path) -> None:
    """Raise TableError for a file that was changed after it was written."""
    if is_changed(path):
        raise TableError(refusal(path))


def refusal(path: Path) -> str:
    """Return the line about a file that was changed after it was written."""
    return f"{path} {CHANGED}; {REMEDY}"


def is_changed(path: Path) -> bool:
    """Return True if a file of `write_with_checksum` exists and no longer matches its digest."""
    try:
        guard = _guard(path).read_bytes()
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, IsADirectoryError):
        return False
    except OSError:
        # A file that cannot be read any more counts as changed.
        return True
    return found.encode() != guard.strip()


def _is_unchanged(path: Path) -> bool:
    return not is_changed(path)


def _guard(path: Path) -> Path:
    return path.parent / f".{path.name}.sha256"
