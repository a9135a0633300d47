"""Write widths.csv."""

import sys
from pathlib import Path

from sqrtdk.config import resolve
from sqrtdk.experiments.score_width import measure as score_width
from sqrtdk.experiments.score_width.widths import COLUMNS, rows
from sqrtdk.storage import frames, guards, tables
from sqrtdk.system import command_line


def main() -> None:
    """Write widths.csv (third) of the run whose config is first, from its runs.csv (second)."""
    settings = resolve.load(Path(sys.argv[1])).of("score_width")
    runs = frames.read(Path(sys.argv[2]), score_width.COLUMNS)
    guards.write_guarded(Path(sys.argv[3]), tables.text(rows(settings, runs), COLUMNS))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "RUNS.csv", "WIDTHS.csv")
