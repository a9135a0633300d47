"""Write the report of a run: `python -m sqrtdk.report results/NAME`."""

import sys
from pathlib import Path

from sqrtdk.report.page import render
from sqrtdk.storage import guards
from sqrtdk.system import command_line


def main() -> None:
    """Write report.html into the folder of a run."""
    folder = Path(sys.argv[1])
    guards.write_with_checksum(folder / "report.html", render(folder))


if __name__ == "__main__":
    command_line.run(main, "FOLDER")
