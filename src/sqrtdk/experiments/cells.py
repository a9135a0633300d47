"""The job shared by all experiments: measure the cells of one slab."""

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from sqrtdk.schema import Column, Key, Slab
from sqrtdk.storage import tables
from sqrtdk.storage.tables import Row

Cell = tuple[Row, Callable[[], Row | list[Row]]]
"""A cell's axes, and the function that measures it: one row, or several with further axes."""

MORE_MEMORY = "; try smaller n_k, n_q or d_k, or a machine or job with more memory"


class FailedCells(SystemExit):
    """Cells that could not be measured: a line for each. Unhandled, it ends the process."""

    def __init__(self, lines: list[str], n_cells: int) -> None:
        super().__init__("\n".join([f"sqrtdk: {len(lines)} of {n_cells} cells failed:", *lines]))
        self.lines = lines


def measure_cells(
    cells: Iterable[Cell], columns: Sequence[Column], slab: Mapping[str, object] | None = None
) -> list[Row]:
    """Measure all cells; collect failures and report them together.

    Raises FailedCells with a line for each cell that failed. Prints a traceback for unexpected
    errors.
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
        except Exception as error:
            if not isinstance(error, (ArithmeticError, MemoryError, tables.TableError)):
                traceback.print_exc()
            cell = " ".join(f"{name}={value}" for name, value in axes.items())
            remedy = MORE_MEMORY if isinstance(error, MemoryError) else _entries(axes, slab)
            failed.append(f"{cell}: {type(error).__name__}: {error}{remedy}")
    if failed:
        raise FailedCells(failed, n_cells)
    return done


def _entries(axes: Row, slab: Mapping[str, object] | None) -> str:
    """Return the entries that a cell's axes name, and a remedy."""
    if slab is None:
        return ""
    entries = {axis: found for axis in axes if isinstance(found := slab.get(axis), dict)}
    given = [f"{axes[axis]} is {found[axes[axis]]}" for axis, found in entries.items()]
    return "".join(f"; {one}" for one in [*given, "try less extreme values of its keys"])


def lazy_batch(compute: Callable[..., Any], *lists: Sequence[Any]) -> Callable[..., Any]:
    """Return a lookup that computes the whole batch on first use and then returns single results.

    The lookup takes one index for each of `lists`. `compute(*lists)` returns nested lists, one
    level for each of `lists`. If it fails, each cell is computed alone, so that only the cells
    with the error fail.
    """
    kept: list[Any] = []

    def at(*places: int) -> Any:
        if not kept:
            try:
                kept.append(compute(*lists))
            except Exception:
                kept.append(None)
        found = kept[0]
        if found is None:
            found = compute(*([one[place]] for one, place in zip(lists, places, strict=True)))
            places = (0,) * len(lists)
        for place in places:
            found = found[place]
        return found

    return at


Variant = TypeVar("Variant", bound=NamedTuple)
SlabT = TypeVar("SlabT", bound=Slab)


def seed_cells(
    slab: SlabT,
    sizes: Sequence[Key],
    variants: Sequence[Variant],
    measure: Callable[[SlabT, int, Sequence[Variant]], Sequence[Row | list[Row]]],
) -> Iterator[Cell]:
    """Yield the cells of a slab whose runs of a seed are measured together, on first use.

    `sizes` are the axes that have one value in the slab. The other ones are the fields of a
    variant. `measure` returns the rows of some variants of a seed.
    """
    common: Row = {key.name: cast(Row, slab)[key.name] for key in sizes}
    for seed in range(*slab["seeds"]):
        found = lazy_batch(partial(measure, slab, seed), variants)
        for place, variant in enumerate(variants):
            yield common | variant._asdict() | {"seed": seed}, partial(found, place)
