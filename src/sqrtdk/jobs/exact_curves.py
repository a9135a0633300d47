"""Write exact.csv of an experiment from its shards."""

import sys
from pathlib import Path

from sqrtdk.config import resolve
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Settings
from sqrtdk.storage import guards, shard_files, tables
from sqrtdk.system import command_line
from sqrtdk.theory import points as theory_points
from sqrtdk.theory.exact_table import COLUMNS, rows
from sqrtdk.theory.expectations import Expectations
from sqrtdk.theory.points import Place, Point


def points(experiment: str, settings: Settings) -> list[Place]:
    """Return every point of an experiment that has an exact value, with its names."""
    return list(theory_points.points(settings)) if EXPERIMENTS[experiment].has_exact else []


def main() -> None:
    """Write exact.csv (third argument) of an experiment (second) of a run (its config, first)."""
    experiment, path = sys.argv[2], Path(sys.argv[3])
    settings = resolve.load(Path(sys.argv[1])).of(experiment)
    found = points(experiment, settings)
    known = {}
    for name in theory_points.specs(place.point for place in found):
        shard = shard_files.usable_path(path.parent.parent.parent / "shards" / "exact" / name)
        for row in shard_files.read_shard(shard, theory_points.COLUMNS):
            axes, numbers = row[: len(Point._fields)], row[len(Point._fields) :]
            known[theory_points.point_of(axes)] = Expectations(*map(float, numbers))
    metrics = [column.name for column in EXPERIMENTS[experiment].columns if not column.axis]
    table = rows(found, known, n_qs=settings.get("n_q", []), metrics=metrics)
    guards.write_with_checksum(path, tables.text(table, COLUMNS))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "EXPERIMENT", "EXACT.csv")
