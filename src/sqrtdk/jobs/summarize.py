"""Write summary.csv of an experiment."""

import sys
from pathlib import Path

from sqrtdk.config import resolve
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.stats.summary import columns, exact_values, rarely_seen, summarize
from sqrtdk.storage import guards, tables
from sqrtdk.storage.frames import read
from sqrtdk.system import command_line
from sqrtdk.theory import exact_table


def main() -> None:
    """Summarize an experiment (second) of a run (its config first): runs.csv, exact.csv, output."""
    experiment, runs, exact, path = sys.argv[2], *map(Path, sys.argv[3:])
    settings = resolve.load(Path(sys.argv[1])).of(experiment)
    schema = EXPERIMENTS[experiment].columns
    known = exact_values(settings, read(exact, exact_table.COLUMNS))
    rows = summarize(read(runs, schema), schema, known, rarely_seen(settings, known))
    guards.write_with_checksum(path, tables.text(rows, columns(schema)))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "EXPERIMENT", "RUNS.csv", "EXACT.csv", "SUMMARY.csv")
