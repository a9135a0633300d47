"""Write twins.csv."""

import sys
from pathlib import Path

from sqrtdk.config import resolve
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.training import rates
from sqrtdk.experiments.training.equivalence import COLUMNS, rows
from sqrtdk.storage import frames, guards, tables
from sqrtdk.system import command_line


def main() -> None:
    """Write twins.csv (last) of the run whose config is first, by its runs.csv and rates.csv."""
    settings = resolve.load(Path(sys.argv[1])).of("training")
    runs = frames.read(Path(sys.argv[2]), training.COLUMNS)
    found = rows(settings, runs, frames.read(Path(sys.argv[3]), rates.COLUMNS))
    written = tables.text(sorted(found, key=tables.axes_of(COLUMNS)), COLUMNS)
    guards.write_guarded(Path(sys.argv[4]), written)


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "RUNS.csv", "RATES.csv", "TWINS.csv")
