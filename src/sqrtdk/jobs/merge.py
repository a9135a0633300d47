"""Merge shards into runs.csv: exactly the rows of a run's grid, sorted by their axes.

Rows stay text from the job that measured them to the table, so that no digit changes.
"""

import csv
import io
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from sqrtdk.config import resolve
from sqrtdk.config import run as config_run
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Column, Settings, Slab
from sqrtdk.storage import code_digest, guards, planning, shard_files, tables
from sqrtdk.system import command_line

Cell: TypeAlias = tuple[list[str], str]
"""A row as text: its fields, at least those of the axes, and its line."""

QUOTED = re.compile(r'["\r\n]')
"""Signs of a field that needs quotes, besides the comma."""


def merged(
    shards: Mapping[Path, Slab], settings: Settings, columns: Sequence[Column]
) -> Iterator[str]:
    """Yield the text of a table from its shards, a part of the grid at a time.

    Rows are sorted by their axes. The leading axes that have one value in each shard cut the grid
    into parts, so that only the rows of one part are in memory.
    """
    fixed = _fixed_axes(shards.values(), columns)
    parts: dict[tuple[Any, ...], list[Path]] = {}
    for shard, slab in shards.items():
        parts.setdefault(tuple(_value(slab, name) for name in fixed), []).append(shard)
    yield _line([column.name for column in columns])
    for part in sorted(parts):
        cells = (
            cell
            for shard in parts[part]
            for cell in cells_of(shard, shards[shard], settings, columns)
        )
        yield "".join(_sorted(cells, columns))


def _fixed_axes(slabs: Iterable[Slab], columns: Sequence[Column]) -> list[str]:
    """Return the leading axes of a table of which every slab has one value."""
    known, names = list(slabs), [column.name for column in columns if column.axis]

    def is_fixed(name: str) -> bool:
        return name not in ("seed", "scaling") and all(
            _value(slab, name) is not None for slab in known
        )

    return list(itertools.takewhile(is_fixed, names))


def _value(slab: Slab, name: str) -> Any:
    """Return the one value of an axis that a slab has, or None for several or none."""
    value = cast(Mapping[str, Any], slab).get(name)
    if isinstance(value, Mapping):
        return next(iter(value)) if len(value) == 1 else None
    return None if isinstance(value, list) else value


def merge(rows: Iterable[list[str]], columns: Sequence[Column]) -> Iterator[str]:
    """Yield lines of CSV sorted by axes, the header first and each cell once.

    Raises TableError if two shards disagree about a cell.
    """
    yield _line([column.name for column in columns])
    yield from _sorted(((row, _line(row)) for row in rows), columns)


def _sorted(cells: Iterable[Cell], columns: Sequence[Column]) -> Iterator[str]:
    # Sort values, not text: 16 comes after 2.
    axes = [(place, column.read) for place, column in enumerate(columns) if column.axis]
    # Keep lines, not rows: those of a long sweep are all in memory, and a line takes a fifth.
    found: dict[tuple[Any, ...], str] = {}
    for fields, line in cells:
        cell = tuple([read(fields[place]) for place, read in axes])
        if found.setdefault(cell, line) != line:
            raise tables.TableError(f"two shards disagree about the cell {cell}")
    for cell in sorted(found):
        yield found[cell]


def _line(fields: list[str]) -> str:
    joined = ",".join(fields)
    # As good as always: the writer would quote none of the fields.
    if joined.count(",") == len(fields) - 1 and joined and not QUOTED.search(joined):
        return f"{joined}\n"
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


def cells_of(shard: Path, slab: Slab, settings: Settings, columns: Sequence[Column]) -> list[Cell]:
    """Return the cells of the grid that a shard has."""
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
    lines = shard_files.read_lines(shard, columns)
    if lines is None:
        cells = [(row, _line(row)) for row in shard_files.read_shard(shard, columns)]
    else:
        # Only as far as the axes go, which come first: most of a line is metrics.
        last = max(place for place, column in enumerate(columns) if column.axis)
        cells = [(line.split(",", last + 1), f"{line}\n") for line in lines]
    for place, column in enumerate(columns):
        if column.axis and column.name in wanted:
            values = wanted[column.name]
            cells = [cell for cell in cells if cell[0][place] in values]
    return cells


def prepare() -> None:
    """Digest the code that measures, which each merge asks for: most of its files are the same."""
    for experiment in EXPERIMENTS.values():
        if not experiment.research:
            code_digest.measured_digest(experiment.measured_by)


def main() -> None:
    """Merge the shards of the second argument, an experiment of the run whose config is first."""
    run, experiment, path = resolve.load(Path(sys.argv[1])), sys.argv[2], Path(sys.argv[3])
    settings, columns = run.of(experiment), EXPERIMENTS[experiment].columns
    plan = plan_of(run, experiment, path.parent.parent.parent / "shards" / experiment)
    if plan.missing:
        lacking = min(plan.missing)
        why = "is damaged; delete it" if lacking.exists() else "is missing"
        raise tables.TableError(f"{len(plan.missing)} shards cannot be read: {lacking} {why}")
    guards.write_with_checksum(path, merged(plan.shards, settings, columns))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "EXPERIMENT", "RUNS.csv")
