"""Write the report of a run: `python -m sqrtdk.report results/NAME`."""

import sys
from pathlib import Path

from sqrtdk import commands, tables
from sqrtdk.report.page import render


def main() -> None:
    """Write report.html into the folder of a run."""
    folder = Path(sys.argv[1])
    tables.write_guarded(folder / "report.html", render(folder))


if __name__ == "__main__":
    commands.run(main, "FOLDER")
