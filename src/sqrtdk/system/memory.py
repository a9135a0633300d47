"""Free memory of this machine, within the limits of containers and batch systems."""

import re
from collections.abc import Iterator
from pathlib import Path

import psutil

GROUPS = Path("/sys/fs/cgroup")
"""Folder of Linux's control groups, whose memory may be limited."""

OWN = Path("/proc/self/cgroup")
"""File that lists the control groups of this process."""

V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = ("memory.max", "memory.current", "inactive_file")
"""Names of a group's limit, of its usage, and of the part of that usage that is cached files."""


def free_memory() -> int:
    """Return the number of bytes that a new process may use."""
    free: int = psutil.virtual_memory().available
    return max(0, min([free, *_left_in_groups()]))


def _left_in_groups() -> Iterator[int]:
    """Yield the bytes that are left below each limit that applies to this process."""
    for line in _text(OWN).splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root, names = GROUPS, V2
        elif "memory" in controllers.split(","):
            root, names = GROUPS / "memory", V1
        else:
            continue
        folder = root / group.lstrip("/")
        # A limit applies to all groups below; in a container the path may start outside of it.
        for level in (folder, *folder.parents):
            if level.is_relative_to(root):
                yield from _left(level, *names)


def _left(folder: Path, limit: str, usage: str, cached: str) -> Iterator[int]:
    most, used = _text(folder / limit).strip(), _text(folder / usage).strip()
    if most.isdecimal() and used.isdecimal():
        of_cached = re.search(rf"^{cached} (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
        yield int(most) - int(used) + (int(of_cached[1]) if of_cached else 0)


def _text(path: Path) -> str:
    # A file that does not exist is treated as no limit.
    try:
        return path.read_text()
    except OSError:
        return ""
