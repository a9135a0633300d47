"""The job shared by all experiments: measure the cells of one slab and write them as a shard."""

import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from sqrtdk.schema import Column, Key
from sqrtdk.storage import shard_files, tables
from sqrtdk.storage.tables import Row
from sqrtdk.system import command_line, errors

Cell = tuple[Row, Callable[[], Row | list[Row]]]
"""A cell's axes, and the function that measures it: one row, or several with further axes."""


def rows(cells: Iterable[Cell], columns: Sequence[Column], slab: Row | None = None) -> list[Row]:
    """Measure all cells; collect failures and report them together.

    Raises SystemExit with a line for each cell that failed. Prints a traceback for unexpected
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
            if not isinstance(error, (ArithmeticError, tables.TableError)):
                traceback.print_exc()
            cell = " ".join(f"{name}={value}" for name, value in axes.items())
            failed.append(f"{cell}: {type(error).__name__}: {error}{_entries(axes, slab)}")
    if failed:
        sys.exit("\n".join([f"sqrtdk: {len(failed)} of {n_cells} cells failed:", *failed]))
    return done


def _entries(axes: Row, slab: Row | None) -> str:
    """Return the entries that a cell's axes name, and a remedy."""
    if slab is None:
        return ""
    named = [axis for axis in axes if isinstance(slab.get(axis), dict)]
    given = [f"{axes[axis]} is {slab[axis][axes[axis]]}" for axis in named]
    return "".join(f"; {one}" for one in [*given, "try less extreme values of its keys"])


def shared(compute: Callable[..., Any], *lists: Sequence[Any]) -> Callable[..., Any]:
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


SHAPES: dict[str, tuple[type, ...]] = {"whole": (int,), "number": (int, float)}
"""The types of a key's values in a slab, if they are not text."""


def check_slab(slab: Row, keys: Sequence[Key]) -> None:
    """Raise MistakeError for a value that is not a slab of an experiment with these keys.

    Checks only the shape, because the slabs of the pipeline come from a checked configuration.
    """
    seeds: Any = slab.get("seeds")
    if not (_are(seeds, (int,)) and len(seeds) == 2 and 0 <= seeds[0] < seeds[1]):
        raise errors.MistakeError(
            f"seeds: {seeds!r} is not allowed; "
            "allowed: the first seed and the one after the last, [0, 20]"
        )
    for key in keys:
        value = slab.get(key.name)
        values = value if isinstance(value, list) else [value]
        right = (
            isinstance(value, dict) if key.named_in else _are(values, SHAPES.get(key.kind, (str,)))
        )
        if key.name != "seed" and not right:
            shown = errors.shorten(value)
            raise errors.MistakeError(f"{key.name}: {shown} is not allowed; allowed: {key.allowed}")


def _are(values: Any, types: tuple[type, ...]) -> bool:
    """Return whether a value is a list of these types; true and false are not whole numbers."""
    return isinstance(values, list) and all(type(one) in types for one in values)


def main(
    cells: Callable[[Row], Iterable[Cell]], keys: Sequence[Key], columns: Sequence[Column]
) -> None:
    """Compute the slab given as JSON, the first argument, into the shard named by the second."""

    def write() -> None:
        slab = errors.read_json(sys.argv[1], "a slab")
        check_slab(slab, keys)
        shard_files.write_sealed(Path(sys.argv[2]), slab, rows(cells(slab), columns, slab), columns)

    command_line.run(write, "SLAB", "SHARD.csv")
