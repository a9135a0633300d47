"""Whether a run has the numbers that the project's own machine had: `snakemake verify`.

The reference holds cells of `scaling` from the smoke grid, which are cells of the default grid as
well. A run with other sizes or seeds has fewer of them, or none.
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
"""Largest relative difference that counts as agreement. Products of other BLAS kernels and other
exponentials (three generations of processors tried) moved these numbers by 1.2e-13 at most, the
quantiles of saturated rows most of all; a mistake moves them by far more."""


RULES = {
    "off": {"rule": "constant", "value": 1},
    "on": {"rule": "power", "exponent": 0.5, "multiplier": 1.0},
}
LAW = {"law": "gaussian"}
D_V = 64
"""What the reference was measured with, beside what its columns say."""


class Difference(NamedTuple):
    """A number that does not agree."""

    cell: str
    column: str
    found: float
    expected: float


class Verification(NamedTuple):
    """How many numbers agree, which do not, and how many cells of the reference the run lacks."""

    agree: int
    differ: list[Difference]
    cells: int
    lacking: int


def compare(rows: Iterable[Mapping[str, Any]], reference: Iterable[tables.Row]) -> Verification:
    """Compare the rows of a run with those of the reference that are of the same cells."""
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


def read(path: Path) -> list[tables.Row]:
    """The rows of a table of `scaling`. Raises TableError where it has other columns."""
    table = frames.read(path, COLUMNS)
    names = [column.name for column in COLUMNS]
    return [dict(zip(names, row, strict=True)) for row in table.itertuples(index=False, name=None)]


def comparable(settings: Mapping[str, Any], reference: Iterable[tables.Row]) -> list[tables.Row]:
    """The rows of the reference that mean what the run's would mean.

    Rules, laws and d_v are no columns: the same name may stand for another formula.
    """
    meant = [
        name for name, entry in RULES.items() if settings.get("scaling", {}).get(name) == entry
    ]
    law = settings.get("inputs", {}).get("gaussian") == LAW and settings.get("d_v") == D_V
    return [row for row in reference if law and row["scaling"] in meant]


def main() -> None:
    """Compare the `scaling` of a run's folder; exit 1 unless all of some numbers agree."""
    folder = Path(sys.argv[1])
    path = folder / "scaling/runs.csv"
    try:
        settings = resolve.load(folder / "config.yaml").settings.get("scaling", {})
        found = compare(read(path) if settings else [], comparable(settings, read(REFERENCE)))
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
