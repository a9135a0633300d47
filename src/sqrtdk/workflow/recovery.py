"""Clean up after a run that was killed, when the next one starts."""

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path

from sqrtdk.storage import atomic, shard_files

INCOMPLETE = Path(".snakemake/incomplete")
"""Folder of Snakemake's markers of unfinished files, named by the base64 of their paths."""


def unmark_finished(shards: Path) -> None:
    """Remove Snakemake's marker of every whole shard, which it would otherwise compute again.

    Snakemake marks a file until it has seen the job end. A shard's seal is more precise: it is
    written last.
    """
    for marker in INCOMPLETE.rglob("*"):
        path = _marked(marker)
        if path is not None and path.is_relative_to(shards) and shard_files.is_valid_shard(path):
            marker.unlink(missing_ok=True)


def _marked(marker: Path) -> Path | None:
    # Snakemake splits long names into folders that begin with @.
    name = "".join(part.removeprefix("@") for part in marker.relative_to(INCOMPLETE).parts)
    try:
        return Path(base64.b64decode(name, altchars=b"-_", validate=True).decode())
    except (binascii.Error, UnicodeDecodeError):
        return None


def sweep(folders: Iterable[Path]) -> None:
    """Delete temporary files of killed processes. Call this only with the lock held."""
    for folder in folders:
        for path in folder.rglob(f".*{atomic.PARTIAL}"):
            path.unlink(missing_ok=True)
