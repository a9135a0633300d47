"""Write rates.csv."""

import sys
from pathlib import Path

from sqrtdk.config import resolve
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.training.rates import COLUMNS, rows
from sqrtdk.storage import frames, guards, tables
from sqrtdk.system import command_line


def main() -> None:
    """Write rates.csv (third) of the run whose config is first, by its runs.csv (second)."""
    settings = resolve.load(Path(sys.argv[1])).of("training")
    runs = frames.read(Path(sys.argv[2]), training.COLUMNS)
    guards.write_guarded(Path(sys.argv[3]), tables.text(rows(settings, runs), COLUMNS))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "RUNS.csv", "RATES.csv")
