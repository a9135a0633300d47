"""Write crossings.csv."""

import sys
from pathlib import Path

from sqrtdk.config import resolve
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.experiments.scaling.crossings import COLUMNS, rows
from sqrtdk.stats import contrasts, summary
from sqrtdk.storage import frames, guards, tables
from sqrtdk.system import command_line


def main() -> None:
    """Write crossings.csv from the run's config, its summary.csv and its contrasts.csv."""
    configuration, means, paired, path = map(Path, sys.argv[1:])
    settings = resolve.load(configuration).of("scaling")
    table = frames.read(means, summary.columns(scaling.COLUMNS))
    ratios = frames.read(paired, contrasts.columns(scaling.COLUMNS))
    guards.write_guarded(path, tables.text(rows(settings, table, ratios), COLUMNS))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "SUMMARY.csv", "CONTRASTS.csv", "CROSSINGS.csv")
