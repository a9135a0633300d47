"""Compare two runs, or a run with the reference."""

import sys
from pathlib import Path

from sqrtdk.compare import changes, page, sides
from sqrtdk.storage import guards, tables
from sqrtdk.system import command_line


def main() -> None:
    """Write compare.csv and the page of two folders; `reference` is a folder's name for it."""
    first, second, table, target = map(Path, sys.argv[1:])
    found = page.compare(sides.read(first), sides.read(second))
    guards.write_with_checksum(table, tables.text(found.rows, changes.COLUMNS))
    guards.write_with_checksum(target, found.page)


if __name__ == "__main__":
    command_line.run(main, "FOLDER", "FOLDER", "COMPARE.csv", "COMPARE.html")
