"""Write a derived table of an experiment from the run's configuration."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqrtdk.config import resolve
from sqrtdk.schema import Column
from sqrtdk.storage import guards, tables
from sqrtdk.system import command_line


def main(
    rows: Callable[[Mapping[str, Any]], Iterable[tables.Row]], columns: Sequence[Column]
) -> None:
    """Write the rows of the `scaling` of the run whose config is named first to the second path."""

    def write() -> None:
        settings = resolve.load(Path(sys.argv[1])).of("scaling")
        guards.write_guarded(Path(sys.argv[2]), tables.text(rows(settings), columns))

    command_line.run(write, "CONFIG", "TABLE.csv")
