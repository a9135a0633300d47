"""Write a derived table of an experiment."""

import sys
from pathlib import Path

from sqrtdk.config import resolve
from sqrtdk.config.errors import invalid_value
from sqrtdk.experiments import schemas
from sqrtdk.experiments.base import load
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.storage import frames, guards, tables
from sqrtdk.system import command_line


def main() -> None:
    """Write a derived table of the run of a config; what it needs is read from the run's folder."""
    configuration, wanted_table, path = sys.argv[1:]
    name, _, table = wanted_table.partition("/")
    experiment = EXPERIMENTS.get(name)
    if experiment is None or table not in {one.name for one in experiment.tables}:
        allowed = [f"{x.name}/{one.name}" for x in EXPERIMENTS.values() for one in x.tables]
        raise invalid_value("table", wanted_table, ", ".join(allowed), allowed)
    wanted = experiment.table(table)
    settings = resolve.load(Path(configuration)).of(name)
    folder = Path(configuration).parent / name
    needed = [
        frames.read(folder / f"{one}.csv", schemas.columns(experiment, one)) for one in wanted.needs
    ]
    rows = load(name, wanted.module).rows(settings, *needed)
    guards.write_with_checksum(Path(path), tables.text(rows, schemas.columns(experiment, table)))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "EXPERIMENT/TABLE", "TABLE.csv")
