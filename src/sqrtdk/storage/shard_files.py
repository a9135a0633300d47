"""Write and read shards: files with a seal, whose names are addresses."""

import csv
import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from sqrtdk.schema import Column, Slab
from sqrtdk.storage import checked, machine
from sqrtdk.storage.atomic import write_atomically
from sqrtdk.storage.tables import Row, TableError, text

MEASURED_ON = " measured_on="
"""What precedes the machine in a seal. Older shards have none."""

MOST_SEAL = 4096
"""Bytes at the end of a file that its seal is looked for in."""


def content_hash(content: Mapping[str, object], columns: Sequence[Column]) -> str:
    """Return the digest of what a shard's numbers depend on: the settings and the columns."""
    text = json.dumps([content, [column.name for column in columns]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write_shard(
    path: Path, slab: Mapping[str, object], rows: Sequence[Row], columns: Sequence[Column]
) -> None:
    """Write a shard: its slab as JSON, its table, and a seal.

    The seal has the number of rows, a digest, and the machine that has measured them.
    """
    body = f"# {json.dumps(slab)}\n{text(rows, columns)}"
    where = json.dumps(machine.here()._asdict())
    seal = f"rows={len(rows)} sha256={_digest(body + where)} measured_on={where}"
    write_atomically(path, f"{body}# {seal}\n")


def read_machine(path: Path) -> machine.Machine | None:
    """Return the machine in the seal of a shard, or None if it has none."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - MOST_SEAL))
        last = file.read().decode("utf-8", errors="replace").rstrip("\n").rpartition("\n")[2]
    try:
        return machine.Machine(**json.loads(last.partition(MEASURED_ON)[2]))
    except (ValueError, TypeError):
        return None


def read_slab(path: Path) -> Slab | None:
    """Return the slab in the header of a shard, or None if the first line is not a slab."""
    with path.open(encoding="utf-8", errors="replace") as file:
        first = file.readline()
    try:
        slab = json.loads(first.removeprefix("# "))
    except (ValueError, RecursionError):
        return None
    return cast(Slab, slab) if isinstance(slab, dict) else None


def is_valid_shard(path: Path) -> bool:
    """Return whether a shard is complete and unchanged."""
    return path.is_file() and checked.holds([path], lambda: _sealed_body(path) is not None)


def usable_path(path: Path) -> Path:
    """Return the usable path of a shard: `path`, or the next free name if a damaged file is there.

    A damaged file is left alone: its content may help to find the cause. Snakemake would also
    treat an existing file as done.
    """
    for number in itertools.count(2):
        if not path.exists() or is_valid_shard(path):
            break
        path = path.with_name(f"{first_name(path)[: -len('.csv')]}.{number}.csv")
    return path


def first_name(path: Path) -> str:
    """Return the name that a shard had before `usable_path` gave it another one.

    >>> first_name(Path("results/dk4-s0000-0020-1a2b.3.csv"))
    'dk4-s0000-0020-1a2b.csv'
    """
    return re.sub(r"\.\d+\.csv$", ".csv", path.name)


def _sealed_body(path: Path) -> bytes | None:
    """Return a shard without its seal, or None if the seal is broken."""
    # As bytes, because the start of a run checks every new shard.
    body, _, seal = path.read_bytes().rpartition(b"# rows=")
    _, sign, where = seal.removesuffix(b"\n").partition(MEASURED_ON.encode())
    digest = hashlib.sha256(body + where).hexdigest()
    # Neither the slab nor the header is a row.
    n_rows = body.count(b"\n") - 2
    whole = f"{n_rows} sha256={digest}".encode() + sign + where + b"\n"
    return body if seal == whole else None


def read_shard(path: Path, columns: Sequence[Column]) -> list[list[str]]:
    """Return the rows of a shard as text fields, so that no digit changes.

    Raises TableError if the seal is broken or the columns differ.
    """
    header, *rows = csv.reader(_whole_body(path).decode().splitlines()[1:])
    if header != [column.name for column in columns]:
        raise TableError(f"{path} has the columns of another version; delete it")
    return rows


def _whole_body(path: Path) -> bytes:
    body = _sealed_body(path)
    if body is None:
        raise TableError(f"{path} is damaged: its content does not match its digest; delete it")
    return body


def read_lines(path: Path, columns: Sequence[Column]) -> list[str] | None:
    """Return the rows of a shard as lines, or None if a field may have quotes or a line end.

    Raises TableError like `read_shard`.
    """
    table = _whole_body(path).partition(b"\n")[2]
    if b'"' in table or b"\r" in table or not table.isascii():
        return None
    header, *lines = table.decode().removesuffix("\n").split("\n")
    if header.split(",") != [column.name for column in columns]:
        raise TableError(f"{path} has the columns of another version; delete it")
    return lines


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
