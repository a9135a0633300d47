"""Merge shards into runs.csv: exactly the rows of a run's grid, sorted by their axes.

Rows stay text from the job that measured them to the table, so that no digit changes.
"""

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqrtdk.config import resolve
from sqrtdk.config import run as config_run
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Column, Settings, Slab
from sqrtdk.storage import code_digest, guards, planning, shard_files, tables
from sqrtdk.system import command_line


def merge(rows: Iterable[list[str]], columns: Sequence[Column]) -> Iterator[str]:
    """Yield lines of CSV sorted by axes, the header first and each cell once.

    Raises TableError if two shards disagree about a cell.
    """
    # Sort values, not text: 16 comes after 2.
    axes = [(place, column.read) for place, column in enumerate(columns) if column.axis]
    # Keep lines, not rows: those of a long sweep are all in memory, and a line takes a fifth.
    found: dict[tuple[Any, ...], str] = {}
    for row in rows:
        cell = tuple(read(row[place]) for place, read in axes)
        line = _line(row)
        if found.setdefault(cell, line) != line:
            raise tables.TableError(f"two shards disagree about the cell {cell}")
    yield _line([column.name for column in columns])
    for cell in sorted(found):
        yield found[cell]


def _line(fields: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(fields)
    return buffer.getvalue()


def plan_of(run: config_run.Run, experiment: str, folder: Path) -> planning.Plan:
    """Return the plan of one experiment of a run, from the shards in a folder and today's code."""
    module = EXPERIMENTS[experiment]
    return planning.plan(
        folder,
        run.settings[experiment],
        module.columns,
        shard_seeds=run.shard_seeds,
        within=module.batched_axes,
        code=code_digest.measured_digest(module.measured_by),
    )


def rows_of(
    shard: Path, slab: Slab, settings: Settings, columns: Sequence[Column]
) -> list[list[str]]:
    """Return the rows of a shard that are cells of the grid."""
    wanted = {
        name: {str(value) for value in values}
        for name, values in settings.items()
        if isinstance(values, (list, Mapping))
    }
    if "scaling" in settings:
        # A shard may hold another rule with the name of one of the grid's rules.
        rules = settings["scaling"]
        wanted["scaling"] = {
            name for name, rule in slab["scaling"].items() if rules.get(name) == rule
        }
    axes = [
        (place, wanted[column.name])
        for place, column in enumerate(columns)
        if column.axis and column.name in wanted
    ]
    return [
        row
        for row in shard_files.read_shard(shard, columns)
        if all(row[place] in values for place, values in axes)
    ]


def main() -> None:
    """Merge the shards of the second argument, an experiment of the run whose config is first."""
    run, experiment, path = resolve.load(Path(sys.argv[1])), sys.argv[2], Path(sys.argv[3])
    settings, columns = run.of(experiment), EXPERIMENTS[experiment].columns
    plan = plan_of(run, experiment, path.parent.parent.parent / "shards" / experiment)
    if plan.missing:
        lacking = min(plan.missing)
        why = "is damaged; delete it" if lacking.exists() else "is missing"
        raise tables.TableError(f"{len(plan.missing)} shards cannot be read: {lacking} {why}")
    rows = (
        row
        for shard, slab in plan.shards.items()
        for row in rows_of(shard, slab, settings, columns)
    )
    guards.write_with_checksum(path, "".join(merge(rows, columns)))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "EXPERIMENT", "RUNS.csv")
