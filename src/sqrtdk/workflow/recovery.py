"""What a run that was killed leaves behind, and how the next one clears it away."""

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path

from sqrtdk.storage import atomic, shard_files

MARKERS = Path(".snakemake/incomplete")
"""Snakemake's markers of files that are being made, named by the base64 of the file's path."""


def keep_finished(shards: Path) -> None:
    """Take Snakemake's marker off every whole shard, which it would compute again.

    It marks a file until it has seen the job end. A shard's seal says more: it is written last.
    """
    for marker in MARKERS.rglob("*"):
        path = _marked(marker)
        if path is not None and path.is_relative_to(shards) and shard_files.is_whole(path):
            marker.unlink(missing_ok=True)


def _marked(marker: Path) -> Path | None:
    # Snakemake cuts long names into folders, each beginning with @.
    name = "".join(part.removeprefix("@") for part in marker.relative_to(MARKERS).parts)
    try:
        return Path(base64.b64decode(name, altchars=b"-_", validate=True).decode())
    except (binascii.Error, UnicodeDecodeError):
        return None


def sweep(folders: Iterable[Path]) -> None:
    """Delete what was being written when a process was killed. Only with the lock held."""
    for folder in folders:
        for path in folder.rglob(f".*{atomic.PARTIAL}"):
            path.unlink(missing_ok=True)
