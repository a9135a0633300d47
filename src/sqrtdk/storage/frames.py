"""Read tables as data frames and check their columns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sqrtdk.schema import Column
from sqrtdk.storage import guards, tables


def read(path: Path, schema: Sequence[Column]) -> pd.DataFrame:
    """Read a table as a data frame with the schema's types.

    Raises TableError for other columns, for a file that is not a table, and for one that was
    changed after it was written.
    """
    guards.refuse_changed(path)
    try:
        # As text first: some pandas versions read the last bit of a float wrong.
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
        return _typed(path, frame, schema)
    except (ValueError, OverflowError) as error:
        # These include the errors of pandas' parser and of text that is not UTF-8.
        why = str(error).splitlines()[0]
        raise tables.TableError(f"{path} cannot be read as its table: {why}") from None


def _typed(path: Path, frame: pd.DataFrame, schema: Sequence[Column]) -> pd.DataFrame:
    if list(frame.columns) != [c.name for c in schema]:
        raise tables.TableError(f"{path} has the columns of another version; delete it")
    for column in schema:
        if column.read is not str:
            # As a list, whose elements are there at once. Those of a series of text are made.
            texts: list[str] = frame[column.name].tolist()
            if column.optional:
                texts = [text or "nan" for text in texts]
            # With the type by name: a table without rows has it too, or it could not be joined.
            kind: Any = column.read
            frame[column.name] = pd.Series(list(map(kind, texts)), frame.index, dtype=kind)
    return frame
