"""Remember which files were found whole, so that the start of a run need not read them all again.

As in git's index, a file counts as the one that was checked if its size, inode and times are the
same. The time of the last change of the inode (ctime) is one of them: a program can set the time of
modification back, but not that one. Times have a resolution, so a file may change twice with the
same time. A file that is younger than `RACY_NS` when it is checked is therefore not remembered.

Only the process that plans a run uses a record. Whatever reads a shard or a table for its numbers
still compares the content with its digest, because a disk may also lose bits.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from sqrtdk.storage import atomic

RACY_NS = 3_000_000_000
"""Age of a file in nanoseconds from which on a further change has another time. The coarsest times
of a file system are two seconds (FAT)."""

Signature: TypeAlias = list[list[int]]


class Record:
    """What was found whole: the signatures of files, by their paths."""

    def __init__(self, path: Path) -> None:
        """Read the record at a path; a missing or damaged one is empty."""
        self._path = path
        self._known: dict[str, Signature] = {}
        self._is_new = False
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(path.read_text(encoding="utf-8"))
            self._known = found if isinstance(found, dict) else {}

    def holds(self, paths: Sequence[Path], check: Callable[[], bool]) -> bool:
        """Return whether a check of some files succeeds, or has for the same content before."""
        # Before the check: a change during it gives another signature.
        now, found = time.time_ns(), _signature(paths)
        key = "\n".join(map(str, paths))
        if found is not None and self._known.get(key) == found:
            return True
        result = check()
        if result and found is not None and all(max(one[-2:]) < now - RACY_NS for one in found):
            self._known[key] = found
            self._is_new = True
        return result

    def save(self) -> None:
        """Write the record; without a place for it, the next run checks everything."""
        if self._is_new:
            with contextlib.suppress(OSError):
                atomic.write_atomically(self._path, json.dumps(self._known))


_records: list[Record] = []
"""The record in use, if any."""


@contextlib.contextmanager
def remembered(path: Path) -> Iterator[None]:
    """Use a record for the checks in this block, and save it."""
    _records.append(Record(path))
    try:
        yield
    finally:
        _records.pop().save()


def holds(paths: Sequence[Path], check: Callable[[], bool]) -> bool:
    """Return whether a check of some files succeeds; a record in use may know it."""
    return _records[-1].holds(paths, check) if _records else check()


def _signature(paths: Sequence[Path]) -> Signature | None:
    """Return what identifies the content of files; None if one of them is no file."""
    try:
        found = [os.stat(path) for path in paths]
    except (OSError, ValueError):
        return None
    return [[x.st_dev, x.st_ino, x.st_size, x.st_mtime_ns, x.st_ctime_ns] for x in found]
