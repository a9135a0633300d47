"""What every experiment's job does: measure the cells of one slab and write them as a shard."""

import json
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from sqrtdk import tables
from sqrtdk.keys import Column
from sqrtdk.tables import Row

Cell = tuple[Row, Callable[[], Row | list[Row]]]
"""A cell's axes, and the function that measures it: one row, or several with further axes."""


def rows(cells: Iterable[Cell], columns: Sequence[Column]) -> list[Row]:
    """Measure cells. One that fails does not stop the others; at the end all failures are named.

    Raises SystemExit(1) if any cell failed, after its traceback was printed.
    """
    done: list[Row] = []
    failed: list[str] = []
    n_cells = 0
    for axes, measure in cells:
        n_cells += 1
        try:
            found = measure()
            several = found if isinstance(found, list) else [found]
            done += [tables.check(axes | row, columns) for row in several]
        except Exception:
            failed.append(" ".join(f"{name}={value}" for name, value in axes.items()))
            print(f"cell {failed[-1]} failed:", file=sys.stderr)
            traceback.print_exc()
    if failed:
        sys.exit("\n".join([f"{len(failed)} of {n_cells} cells failed:", *failed]))
    return done


def once(compute: Callable[[], list[Row] | list[list[Row]]]) -> Callable[[], Any]:
    """A function that computes at its first call, and gives or raises the same at every other.

    For cells that are computed together: where one of them fails they all do, but once.
    """
    kept: list[Any] = []

    def called() -> Any:
        if not kept:
            try:
                kept.extend((True, compute()))
            except Exception as error:
                kept.extend((False, error))
        worked, found = kept
        if not worked:
            raise found
        return found

    return called


def main(cells: Callable[[Row], Iterable[Cell]], columns: Sequence[Column]) -> None:
    """Compute the slab given as JSON, the first argument, into the shard named by the second."""
    slab, path = json.loads(sys.argv[1]), Path(sys.argv[2])
    tables.write_sealed(path, slab, rows(cells(slab), columns), columns)
