"""Write summary.csv of an experiment."""

import sys
from pathlib import Path

from sqrtdk.config import resolve
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.stats.summary import columns, exact_by_group, rarely_seen, summarized
from sqrtdk.storage import blocks, guards
from sqrtdk.system import command_line
from sqrtdk.theory import exact_table


def main() -> None:
    """Summarize an experiment (second) of a run (its config first): runs.csv, exact.csv, output."""
    experiment, runs, exact, path = sys.argv[2], *map(Path, sys.argv[3:])
    settings = resolve.load(Path(sys.argv[1])).of(experiment)
    schema = EXPERIMENTS[experiment].columns
    exact_rows = (
        row
        for block in blocks.read(exact, exact_table.COLUMNS)
        for row in zip(*block.values(), strict=True)
    )
    known = exact_by_group(settings, exact_rows)
    rare = rarely_seen(settings, known)
    rows = (
        row for block in blocks.read(runs, schema) for row in summarized(block, schema, known, rare)
    )
    guards.write_with_checksum(path, blocks.text(rows, columns(schema)))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "EXPERIMENT", "RUNS.csv", "EXACT.csv", "SUMMARY.csv")
