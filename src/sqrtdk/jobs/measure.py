"""Measure one shard of an experiment."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqrtdk.experiments import cells
from sqrtdk.experiments.base import FOLDER, load
from sqrtdk.schema import Key
from sqrtdk.storage import shard_files
from sqrtdk.system import command_line, errors

SHAPES: dict[str, tuple[type, ...]] = {"whole": (int,), "number": (int, float)}
"""The types of a key's values in a slab, where they are not words."""


def check_slab(slab: Mapping[str, object], keys: Sequence[Key]) -> None:
    """Refuse anything but a slab of an experiment with these keys. Raises UserError.

    Only its shape: the pipeline's slabs are of a configuration that was checked.
    """
    seeds: Any = slab.get("seeds")
    if not (_are(seeds, (int,)) and len(seeds) == 2 and 0 <= seeds[0] < seeds[1]):
        allowed = "the first seed and the one after the last, [0, 20]"
        raise errors.not_allowed("seeds", seeds, allowed)
    for key in keys:
        value = slab.get(key.name)
        values = value if isinstance(value, list) else [value]
        right = (
            isinstance(value, dict)
            if key.named_in or key.kind == "file"
            else _are(values, SHAPES.get(key.kind, (str,)))
        ) or (key.optional and value is None)
        if key.name != "seed" and not right:
            raise errors.not_allowed(key.name, value, key.allowed)


def _are(values: Any, types: tuple[type, ...]) -> bool:
    """Return whether a value is a list of some types; booleans are not whole numbers."""
    return isinstance(values, list) and all(type(one) in types for one in values)


def main() -> None:
    """Measure the slab of an experiment that is given as JSON into a shard."""
    name, text, path = sys.argv[1:]
    try:
        experiment = load(name, "experiment").EXPERIMENT
    except ModuleNotFoundError as error:
        # A package that is missing is not a wrong name.
        if not (error.name or "").startswith("sqrtdk.experiments."):
            raise
        known = sorted(path.parent.name for path in FOLDER.glob("*/experiment.py"))
        raise errors.not_allowed("experiment", name, ", ".join(known)) from None
    slab = errors.read_json(text, "a slab")
    check_slab(slab, experiment.config_keys)
    rows = cells.measure_cells(experiment.cells(slab), experiment.columns, slab)
    shard_files.write_shard(Path(path), slab, rows, experiment.columns)


if __name__ == "__main__":
    command_line.run(main, "EXPERIMENT", "SLAB", "SHARD.csv")
