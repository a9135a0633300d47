"""Read and write long tables a block at a time, so that memory does not grow with them."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sqrtdk.schema import Column, Value
from sqrtdk.storage import guards, tables

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
            lines = csv.reader(file)
            if next(lines, []) != names:
                raise tables.TableError(f"{path} has the columns of another version; delete it")
            block: list[list[str]] = []
            group: list[str] = []
            for line in lines:
                if len(block) >= rows and [line[place] for place in places] != group:
                    yield _typed(block, schema)
                    block = []
                block.append(line)
                if len(block) >= rows:
                    group = [line[place] for place in places]
            yield _typed(block, schema)
    except (ValueError, IndexError, csv.Error) as error:
        why = str(error).splitlines()[0]
        raise tables.TableError(f"{path} cannot be read as its table: {why}") from None


def _typed(block: list[list[str]], schema: Sequence[Column]) -> dict[str, list[Value]]:
    if set(map(len, block)) - {len(schema)}:
        raise ValueError("a row has another number of fields than the header")
    fields = zip(*block, strict=True) if block else ((),) * len(schema)
    return {
        column.name: _values(column, of_column)
        for column, of_column in zip(schema, fields, strict=True)
    }


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
