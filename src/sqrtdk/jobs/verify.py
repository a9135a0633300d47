"""Compare a run with the numbers that the project's own machine measured: `snakemake verify`.

An experiment's `reference` has cells of the smoke grid, which are also cells of the default grid. A
run with other sizes or seeds has fewer of them, or none.
"""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sqrtdk.config import errors, resolve
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Column
from sqrtdk.storage import frames, tables
from sqrtdk.system import command_line
from sqrtdk.system import errors as system_errors

RTOL = 1e-11
"""Largest relative difference that counts as agreement. Other BLAS kernels and other exponentials
(tested on three generations of processors) changed these numbers by at most 1.2e-13, most of all
the quantiles of saturated rows. A mistake changes them by far more."""


class Difference(NamedTuple):
    """A number that does not agree."""

    cell: str
    column: str
    found: float
    expected: float


class Verification(NamedTuple):
    """The number of values that agree, those that differ, and the cells that the run lacks."""

    agree: int
    differ: list[Difference]
    cells: int
    lacking: int


def compare(
    rows: Iterable[tables.Row], reference: Iterable[tables.Row], columns: Sequence[Column]
) -> Verification:
    """Compare the rows of a run with the reference's rows of the same cells."""
    axes = tables.axes_of(columns)
    metrics = [column.name for column in columns if not column.axis]
    known = {axes(row): row for row in rows}
    agree, cells, lacking = 0, 0, 0
    differ = []
    for expected in reference:
        found = known.get(axes(expected))
        if found is None:
            lacking += 1
            continue
        cells += 1
        cell = " ".join(f"{c.name}={expected[c.name]}" for c in columns if c.axis)
        for name in metrics:
            one, other = float(found[name]), float(expected[name])
            both_empty = math.isnan(one) and math.isnan(other)
            if both_empty or math.isclose(one, other, rel_tol=RTOL, abs_tol=0.0):
                agree += 1
            else:
                differ.append(Difference(cell, name, one, other))
    return Verification(agree, differ, cells, lacking)


def read_rows(path: Path, columns: Sequence[Column]) -> list[tables.Row]:
    """Return the rows of a table. Raises TableError for other columns."""
    table = frames.read(path, columns)
    names = [column.name for column in columns]
    return [dict(zip(names, row, strict=True)) for row in table.itertuples(index=False, name=None)]


def comparable(
    settings: Mapping[str, object], known: Mapping[str, object], reference: Iterable[tables.Row]
) -> list[tables.Row]:
    """Return the rows of the reference that mean the same in the run.

    `known` are the settings of the reference that are not columns: the same name may be another
    formula in the run.
    """

    def means_the_same(row: tables.Row, key: str) -> bool:
        of_run, of_reference = settings.get(key), known[key]
        if not isinstance(of_reference, Mapping) or not isinstance(of_run, Mapping):
            return of_run == of_reference
        name = row[key]
        return name in of_reference and of_run.get(name) == of_reference[name]

    return [row for row in reference if all(means_the_same(row, key) for key in known)]


def main() -> None:
    """Compare the tables of a run's folder; exit 1 unless all of some numbers agree."""
    folder = Path(sys.argv[1])
    found = []
    try:
        settings = resolve.load(folder / "config.yaml").settings
        for name in settings:
            experiment = EXPERIMENTS[name]
            if experiment.reference is None:
                continue
            columns = experiment.columns
            reference = comparable(
                settings[name],
                experiment.reference.settings,
                read_rows(experiment.reference_file, columns),
            )
            runs = read_rows(folder / name / "runs.csv", columns)
            found.append(compare(runs, reference, columns))
    except (errors.ConfigError, tables.TableError, OSError) as error:
        sys.exit(f"sqrtdk: {system_errors.one_line(error)}")
    report(folder, found)


def report(folder: Path, found: Sequence[Verification]) -> None:
    """Print how many numbers agree, and exit 1 unless there are some and all do."""
    agree, cells, lacking = (
        sum(getattr(one, name) for one in found) for name in ("agree", "cells", "lacking")
    )
    if not cells:
        sys.exit(f"sqrtdk: {folder} has none of the cells of the reference")
    differ = [difference for one in found for difference in one.differ]
    for one in differ[:10]:
        print(f"sqrtdk: {one.cell}: {one.column} is {one.found!r}, not {one.expected!r}")
    print(
        f"sqrtdk: {agree} of {agree + len(differ)} numbers agree with the reference to a relative "
        f"{RTOL:g}, in {cells} cells; {lacking} cells of the reference are not in this run",
        flush=True,
    )
    if differ:
        sys.exit(f"sqrtdk: {folder} does not reproduce the reference")


if __name__ == "__main__":
    command_line.run(main, "FOLDER")
