"""Tables as text: rows to CSV and back to values.

Tables are tidy: one header line, LF line ends, floats as the shortest text that reads back to the
same bits, an empty field where a value is undefined, rows sorted by their axes.
"""

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from sqrtdk.schema import Column, Value
from sqrtdk.system import errors

Row: TypeAlias = dict[str, Value]
"""A row of a table by column."""


class TableError(errors.UserError):
    """A table that cannot be used; the message names the file and the reason."""


def check(row: Row, columns: Sequence[Column]) -> Row:
    """Return the row, or raise TableError: a missing metric stops the run, it is never 0.0."""
    for column in columns:
        value = row[column.name]
        if not isinstance(value, float) or math.isfinite(value):
            continue
        if not (column.optional and math.isnan(value)):
            raise TableError(f"{column.name} is {value}")
    return row


def text(rows: Iterable[Row], columns: Sequence[Column]) -> str:
    """Format rows as CSV with a header line; NaN becomes an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = [column.name for column in columns]
    writer.writerow(names)
    for row in rows:
        writer.writerow("" if row[name] != row[name] else row[name] for name in names)
    return buffer.getvalue()


def axes_of(columns: Sequence[Column]) -> Callable[[Row], tuple[Value, ...]]:
    """Return a key function that orders rows by their axes."""
    names = [column.name for column in columns if column.axis]
    return lambda row: tuple(row[name] for name in names)


def read_record(path: Path) -> dict[str, Any]:
    """Read a JSON file. Raises TableError for other content."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise TableError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(found, dict):
        raise TableError(f"{path} is not the record of a run; delete it")
    return found
