"""Tables on disk: rows to CSV text, whole-or-absent writes, checked reads.

Tables are tidy: one header line, LF line ends, floats as the shortest text that reads back to the
same bits, an empty field where a value is undefined, rows sorted by their axes.
"""

import csv
import hashlib
import io
import itertools
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from sqrtdk import commands
from sqrtdk.keys import Column

Row = dict[str, Any]

PARTIAL = ".partial"
"""How the name of a file ends while it is being written, after a dot and its name to be."""


class TableError(commands.MistakeError):
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
    handle, temporary = tempfile.mkstemp(PARTIAL, f".{path.name}.", path.parent)
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
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            # The system does not say what a full disk had no room for.
            error.filename = str(path)
        raise


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
    except (ValueError, RecursionError):
        return None
    return slab if isinstance(slab, dict) else None


def is_whole(path: Path) -> bool:
    """Whether a shard is all that was written of it, and nothing else."""
    return path.is_file() and _sealed_lines(path) is not None


def sound(path: Path) -> Path:
    """Where a shard is, or is to be written: `path`, or the next name where a damaged file is.

    A damaged file is left alone. Snakemake would hold one that was only there to be replaced for
    done, and whoever looks for the cause wants to see it.
    """
    for number in itertools.count(2):
        if not path.exists() or is_whole(path):
            break
        path = path.with_name(f"{first_name(path)[: -len('.csv')]}.{number}.csv")
    return path


def first_name(path: Path) -> str:
    """The name that a shard had before `sound` gave it another one.

    >>> first_name(Path("results/dk4-s0000-0020-1a2b.3.csv"))
    'dk4-s0000-0020-1a2b.csv'
    """
    return re.sub(r"\.\d+\.csv$", ".csv", path.name)


def _sealed_lines(path: Path) -> list[str] | None:
    """The lines between a shard's slab and its seal, or None where the seal is broken."""
    body, _, seal = path.read_text(encoding="utf-8", errors="replace").rpartition("# rows=")
    lines = body.splitlines()[1:]
    return lines if seal == f"{len(lines) - 1} sha256={_digest(body)}\n" else None


def read_sealed(path: Path, columns: Sequence[Column]) -> list[list[str]]:
    """The rows of a shard as text fields, so that no digit changes on the way.

    Raises TableError where the seal is broken or the columns are other ones.
    """
    lines = _sealed_lines(path)
    if lines is None:
        raise TableError(f"{path} is damaged: its content does not match its digest; delete it")
    header, *rows = csv.reader(lines)
    if header != [column.name for column in columns]:
        raise TableError(f"{path} has the columns of another version; delete it")
    return rows


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def read_record(path: Path) -> dict[str, Any]:
    """A JSON file. Raises TableError for what is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise TableError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(found, dict):
        raise TableError(f"{path} is not the record of a run; delete it")
    return found


def main() -> None:
    """Copy a file (first argument) to another (second), which is whole or absent, and guarded."""
    write_guarded(Path(sys.argv[2]), Path(sys.argv[1]).read_bytes())


if __name__ == "__main__":
    commands.run(main, "FILE", "COPY")
