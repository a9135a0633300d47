"""Tables on disk: rows to CSV text, whole-or-absent writes, checked reads.

Tables are tidy: one header line, LF line ends, floats as the shortest text that reads back to the
same bits, an empty field where a value is undefined, rows sorted by their axes.
"""

import csv
import hashlib
import io
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from sqrtdk.keys import Column

Row = dict[str, Any]


class TableError(Exception):
    """A table that is not what its reader was promised; the message names the file and why."""


def check(row: Row, columns: Sequence[Column]) -> Row:
    """Return the row, or raise TableError: a missing metric stops the run, it is never 0.0."""
    for column in columns:
        value = row[column.name]
        undefined = isinstance(value, float) and not math.isfinite(value)
        if undefined and not (column.optional and math.isnan(value)):
            raise TableError(f"{column.name} is {value}")
    return row


def text(rows: Iterable[Row], columns: Sequence[Column]) -> str:
    """Rows as CSV with a header line; NaN becomes an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = [column.name for column in columns]
    writer.writerow(names)
    for row in rows:
        writer.writerow("" if row[name] != row[name] else row[name] for name in names)
    return buffer.getvalue()


def axes_of(columns: Sequence[Column]) -> Callable[[Row], tuple[Any, ...]]:
    """Key function that orders rows by their axes."""
    names = [column.name for column in columns if column.axis]
    return lambda row: tuple(row[name] for name in names)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that it is whole or absent, also when the process or machine dies."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; a result is as readable as any other new file.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def address(content: Row, columns: Sequence[Column]) -> str:
    """Digest of what a shard's numbers depend on: what was asked for, and the columns."""
    text = json.dumps([content, [column.name for column in columns]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write_sealed(path: Path, slab: Row, rows: Sequence[Row], columns: Sequence[Column]) -> None:
    """Write a shard: its slab as JSON, its table, and a seal of row count and digest."""
    body = f"# {json.dumps(slab)}\n{text(rows, columns)}"
    write_atomically(path, f"{body}# rows={len(rows)} sha256={_digest(body)}\n")


def read_slab(path: Path) -> Row | None:
    """The slab that a shard says it holds, or None where the first line is not one."""
    with path.open(encoding="utf-8", errors="replace") as file:
        first = file.readline()
    try:
        slab = json.loads(first.removeprefix("# "))
    except ValueError:
        return None
    return slab if isinstance(slab, dict) else None


def read_sealed(path: Path, columns: Sequence[Column]) -> list[list[str]]:
    """The rows of a shard as text fields, so that no digit changes on the way.

    Raises TableError where the seal is broken or the columns are other ones.
    """
    body, _, seal = path.read_text(encoding="utf-8", errors="replace").rpartition("# rows=")
    lines = body.splitlines()[1:]
    if seal != f"{len(lines) - 1} sha256={_digest(body)}\n":
        raise TableError(f"{path} is damaged: its content does not match its digest; delete it")
    header, *rows = csv.reader(lines)
    if header != [column.name for column in columns]:
        raise TableError(f"{path} has the columns of another version; delete it")
    return rows


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
