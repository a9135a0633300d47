"""Compare a run with the numbers that the project's own machine measured: `snakemake verify`.

The reference has cells of `scaling` from the smoke grid, which are also cells of the default grid.
A run with other sizes or seeds has fewer of them, or none.
"""

import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sqrtdk.config import errors, resolve
from sqrtdk.experiments.scaling.measure import COLUMNS
from sqrtdk.storage import frames, tables
from sqrtdk.storage.code_digest import REFERENCE
from sqrtdk.system import command_line
from sqrtdk.system import errors as system_errors

RTOL = 1e-11
"""Largest relative difference that counts as agreement. Other BLAS kernels and other exponentials
(tested on three generations of processors) changed these numbers by at most 1.2e-13, most of all
the quantiles of saturated rows. A mistake changes them by far more."""


REFERENCE_RULES = {
    "off": {"rule": "constant", "value": 1},
    "on": {"rule": "power", "exponent": 0.5, "multiplier": 1.0},
}
LAW = {"law": "gaussian"}
D_V = 64
"""The d_v of the reference, which is in none of its columns."""


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


def compare(rows: Iterable[Mapping[str, Any]], reference: Iterable[tables.Row]) -> Verification:
    """Compare the rows of a run with the reference's rows of the same cells."""
    axes = tables.axes_of(COLUMNS)
    metrics = [column.name for column in COLUMNS if not column.axis]
    known = {axes(dict(row)): row for row in rows}
    agree, cells, lacking = 0, 0, 0
    differ = []
    for expected in reference:
        found = known.get(axes(expected))
        if found is None:
            lacking += 1
            continue
        cells += 1
        cell = " ".join(f"{c.name}={expected[c.name]}" for c in COLUMNS if c.axis)
        for name in metrics:
            one, other = float(found[name]), float(expected[name])
            both_empty = math.isnan(one) and math.isnan(other)
            if both_empty or math.isclose(one, other, rel_tol=RTOL, abs_tol=0.0):
                agree += 1
            else:
                differ.append(Difference(cell, name, one, other))
    return Verification(agree, differ, cells, lacking)


def read_rows(path: Path) -> list[tables.Row]:
    """Return the rows of a table of `scaling`. Raises TableError for other columns."""
    table = frames.read(path, COLUMNS)
    names = [column.name for column in COLUMNS]
    return [dict(zip(names, row, strict=True)) for row in table.itertuples(index=False, name=None)]


def comparable(settings: Mapping[str, Any], reference: Iterable[tables.Row]) -> list[tables.Row]:
    """Return the rows of the reference that mean the same in the run.

    Rules, laws and d_v are not columns: the same name may be another formula.
    """
    meant = [
        name
        for name, entry in REFERENCE_RULES.items()
        if settings.get("scaling", {}).get(name) == entry
    ]
    law = settings.get("inputs", {}).get("gaussian") == LAW and settings.get("d_v") == D_V
    return [row for row in reference if law and row["scaling"] in meant]


def main() -> None:
    """Compare the `scaling` of a run's folder; exit 1 unless all of some numbers agree."""
    folder = Path(sys.argv[1])
    path = folder / "scaling/runs.csv"
    try:
        settings = resolve.load(folder / "config.yaml").settings.get("scaling", {})
        found = compare(
            read_rows(path) if settings else [], comparable(settings, read_rows(REFERENCE))
        )
    except (errors.ConfigError, tables.TableError, OSError) as error:
        sys.exit(f"sqrtdk: {system_errors.one_line(error)}")
    if not found.cells:
        sys.exit(f"sqrtdk: {folder} has none of the cells of the reference")
    for one in found.differ[:10]:
        print(f"sqrtdk: {one.cell}: {one.column} is {one.found!r}, not {one.expected!r}")
    total = found.agree + len(found.differ)
    print(
        f"sqrtdk: {found.agree} of {total} numbers agree with the reference to a relative "
        f"{RTOL:g}, in {found.cells} cells; {found.lacking} cells of the reference are not in "
        "this run",
        flush=True,
    )
    if found.differ:
        sys.exit(f"sqrtdk: {path} does not reproduce the reference")


if __name__ == "__main__":
    command_line.run(main, "FOLDER")
