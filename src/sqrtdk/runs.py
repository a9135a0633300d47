"""Shards to runs.csv: exactly the rows of a run's grid, sorted by their axes.

Rows stay text from the job that measured them to the table, so no digit changes on the way.
"""

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqrtdk import config, shards, tables
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.keys import Column


def merge(shard_rows: Sequence[list[str]], columns: Sequence[Column]) -> list[list[str]]:
    """Rows sorted by axes, each cell once.

    Raises TableError where two shards disagree about a cell.
    """
    # As values, not as text: 16 comes after 2.
    axes = [(place, column.read) for place, column in enumerate(columns) if column.axis]
    found: dict[tuple[Any, ...], list[str]] = {}
    for row in shard_rows:
        cell = tuple(read(row[place]) for place, read in axes)
        if found.setdefault(cell, row) != row:
            raise tables.TableError(f"two shards disagree about the cell {cell}")
    return [found[cell] for cell in sorted(found)]


def wanted(settings: Mapping[str, Any], columns: Sequence[Column]) -> Any:
    """Predicate: whether a row of text fields is a cell of the grid."""
    axes = [
        (place, {str(value) for value in settings[column.name]})
        for place, column in enumerate(columns)
        if column.axis
    ]
    return lambda row: all(row[place] in values for place, values in axes)


def main() -> None:
    """Merge the shards of the experiment named second, in the run of the config named first."""
    run, experiment, path = config.load(Path(sys.argv[1])), sys.argv[2], Path(sys.argv[3])
    settings, module = run.settings[experiment], EXPERIMENTS[experiment]
    columns = module.COLUMNS
    folder = path.parents[2] / "shards" / experiment
    plan = shards.plan(folder, settings, columns, shard_seeds=run.shard_seeds, within=module.WITHIN)
    if plan.missing:
        raise tables.TableError(f"{len(plan.missing)} shards are missing: {min(plan.missing)}")
    keep = wanted(settings, columns)
    rows = [row for shard in plan.shards for row in tables.read_sealed(shard, columns) if keep(row)]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(column.name for column in columns)
    writer.writerows(merge(rows, columns))
    tables.write_atomically(path, buffer.getvalue())


if __name__ == "__main__":
    main()
