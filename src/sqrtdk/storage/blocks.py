"""Read and write long tables a block at a time, so that memory does not grow with them."""

import contextlib
import csv
import io
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sqrtdk.schema import Column, Value
from sqrtdk.storage import guards, tables

Record: TypeAlias = str | list[str]
"""A row as its line, or as its fields if some may be quoted."""

ROWS = 5_000
"""Rows of a block: about 10 MB as Python objects, and enough for whole-array statistics."""


def read(
    path: Path, schema: Sequence[Column], rows: int = ROWS
) -> Iterator[dict[str, list[Value]]]:
    """Yield the columns of a table in blocks of at least this many rows, the last one aside.

    A block ends where an axis before the seed changes, so that the seeds of a group are in one
    block. Raises TableError for other columns, for a file that is not a table, and for one that
    was changed after it was written.
    """
    guards.refuse_changed(path)
    names = [column.name for column in schema]
    before = [column.name for column in schema if column.axis]
    before = before[: before.index("seed")] if "seed" in before else []
    places = [names.index(name) for name in before]
    try:
        with path.open(encoding="utf-8", newline="") as file:
            if next(csv.reader(file), []) != names:
                raise tables.TableError(f"{path} has the columns of another version; delete it")
            block: list[Record] = []
            group: list[str] = []
            for record in _records(file):
                if len(block) >= rows and _fields(record, places) != group:
                    yield _typed(block, schema)
                    block = []
                block.append(record)
                if len(block) >= rows:
                    group = _fields(record, places)
            yield _typed(block, schema)
    except (ValueError, IndexError, csv.Error) as error:
        why = str(error).splitlines()[0]
        raise tables.TableError(f"{path} cannot be read as its table: {why}") from None


def _records(file: Iterable[str]) -> Iterator[Record]:
    """Yield the rows of a table: as lines, and as fields from the first row with quotes on."""
    lines = iter(file)
    for line in lines:
        if '"' in line:
            yield from csv.reader(itertools.chain([line], lines))
        else:
            yield line.rstrip("\r\n")


def _fields(record: Record, places: Sequence[int]) -> list[str]:
    if isinstance(record, str):
        # Only as far as these fields go: most of a line is metrics.
        record = record.split(",", max(places, default=0) + 1)
    return [record[place] for place in places]


def _typed(block: list[Record], schema: Sequence[Column]) -> dict[str, list[Value]]:
    lines = [record for record in block if isinstance(record, str)]
    if len(lines) == len(block) and block:
        if {line.count(",") for line in lines} - {len(schema) - 1}:
            raise ValueError("a row has another number of fields than the header")
        numbers = [place for place, column in enumerate(schema) if column.read is float]
        # Empty fields are rare, and left to Python.
        with contextlib.suppress(ValueError):
            return _parsed(lines, schema, numbers)
    rows = [record.split(",") if isinstance(record, str) else record for record in block]
    if set(map(len, rows)) - {len(schema)}:
        raise ValueError("a row has another number of fields than the header")
    fields = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return {
        column.name: _values(column, of_column)
        for column, of_column in zip(schema, fields, strict=True)
    }


def _parsed(
    lines: list[str], schema: Sequence[Column], numbers: list[int]
) -> dict[str, list[Value]]:
    """Return the columns of lines; NumPy reads the `numbers`, with Python's own parser of floats.

    Raises ValueError for a field that is not a number.
    """
    if not numbers:
        raise ValueError("there are no numbers")
    table = np.loadtxt(lines, delimiter=",", usecols=numbers, comments=None, ndmin=2)
    found = dict(zip(numbers, table.T.tolist(), strict=True))
    others = [place for place in range(len(schema)) if place not in found]
    texts = zip(*(_fields(line, others) for line in lines), strict=True)
    found |= {
        place: _values(schema[place], text) for place, text in zip(others, texts, strict=True)
    }
    return {column.name: found[place] for place, column in enumerate(schema)}


def _values(column: Column, fields: Sequence[str]) -> list[Value]:
    if column.optional and column.read is float and "" in fields:
        return [float(field) if field else math.nan for field in fields]
    return list(map(column.read, fields))


def text(rows: Iterable[Sequence[Value]], schema: Sequence[Column]) -> Iterator[str]:
    """Yield the text of a table in pieces, the same as `tables.text` of rows in schema order."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([column.name for column in schema])
    for row in rows:
        # NaN becomes an empty field.
        writer.writerow(["" if value != value else value for value in row])
        if buffer.tell() > 2**16:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()
