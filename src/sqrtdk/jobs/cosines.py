"""Write cosines.csv."""

import sys
from pathlib import Path

from sqrtdk.config import resolve
from sqrtdk.experiments.related.cosines import COLUMNS, rows
from sqrtdk.storage import guards, tables
from sqrtdk.system import command_line


def main() -> None:
    """Write the table of the run whose config is named first to the second path."""
    settings = resolve.load(Path(sys.argv[1])).of("related")
    guards.write_guarded(Path(sys.argv[2]), tables.text(rows(settings), COLUMNS))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "TABLE.csv")
