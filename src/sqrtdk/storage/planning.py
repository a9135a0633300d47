"""Plan shards: cut a grid of cells into jobs, reusing what is already on disk.

A *slab* is one combination of every axis but seed and scaling. A *shard* is a file with some
seeds and scale rules of one slab. Shards are addressed by content: the name of a shard ends in a
digest of everything that its numbers depend on. So all runs that need the same cells share it, and
a grown grid computes only the cells that no shard has yet.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from sqrtdk.schema import Column, Entries, Settings, Slab
from sqrtdk.storage import shard_files

Needed = dict[str, set[int]]
"""For each scale rule the seeds that are still missing."""

ALONE: Entries = {"": {}}
"""The scale rules of an experiment without scale rules."""


@dataclass(frozen=True)
class Plan:
    """The shards that together hold every cell of an experiment: `{path: slab}`.

    `missing` are the shards to be computed. `damaged` are files of shards that cannot be used
    because their content was changed.
    """

    shards: dict[Path, Slab]
    missing: frozenset[Path]
    damaged: frozenset[Path]


def slabs(settings: Settings, within: Sequence[str] = ()) -> Iterator[Slab]:
    """Yield every slab of an experiment's settings, with all of its scale rules and no seeds.

    A slab has all values of the axes named in `within`, and one value of every other axis.
    """
    names: list[str] = []
    choices: list[list[object]] = []
    for name, value in settings.items():
        if name in ("seed", "scaling"):
            continue
        names.append(name)
        if name in within:
            choices.append([value])
        elif isinstance(value, Mapping):
            choices.append([{entry: value[entry]} for entry in value])
        else:
            choices.append(value if isinstance(value, list) else [value])
    for combination in itertools.product(*choices):
        rules = {"scaling": settings["scaling"]} if "scaling" in settings else {}
        yield cast(Slab, dict(zip(names, combination, strict=True)) | rules)


def plan(
    folder: Path,
    settings: Settings,
    columns: Sequence[Column],
    *,
    shard_seeds: int,
    within: Sequence[str] = (),
    code: str = "",
) -> Plan:
    """Choose the shards on disk that serve a grid, and plan new ones for the missing cells.

    `code` is the digest of the code that measures. Shards of other code are not used.
    """
    on_disk: dict[str, list[tuple[Path, Slab]]] = {}
    for path in sorted(folder.glob("*.csv")):
        # A folder or a broken link has no first line.
        slab = shard_files.read_slab(path) if path.is_file() else None
        if slab is not None and _is_shard(path, slab, columns):
            on_disk.setdefault(_identity(slab), []).append((path, slab))
    chosen: dict[Path, Slab] = {}
    missing, damaged = [], []
    for slab in slabs(settings, within):
        slab["code"] = code
        rules, seeds = slab.get("scaling", ALONE), settings["seed"]
        needed = {name: set(seeds) for name in rules}
        for path, there in on_disk.get(_identity(slab), ()):
            if not shard_files.is_valid_shard(path):
                damaged.append(path)
            elif _take(needed, rules, there):
                chosen[path] = there
        for new in _cut(slab, needed, shard_seeds):
            wanted = folder / file_name(new, columns)
            path = shard_files.usable_path(wanted)
            if path != wanted:
                damaged.append(wanted)
            chosen[path] = new
            missing.append(path)
    return Plan(chosen, frozenset(missing), frozenset(damaged))


def file_name(slab: Slab, columns: Sequence[Column]) -> str:
    """Return the readable axes of a shard, then a digest of all that its numbers depend on."""
    start, stop = slab["seeds"]
    axes = [
        f"{name.replace('_', '')}{value}" for name, value in slab.items() if isinstance(value, int)
    ]
    return (
        "-".join([*axes, f"s{start:04d}", f"{stop:04d}", shard_files.content_hash(slab, columns)])
        + ".csv"
    )


def _is_shard(path: Path, slab: Slab, columns: Sequence[Column]) -> bool:
    """Return whether the file name matches the address of the slab in its header."""
    try:
        return shard_files.first_name(path) == file_name(slab, columns)
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


def _identity(slab: Slab) -> str:
    return json.dumps(
        {name: value for name, value in slab.items() if name not in ("scaling", "seeds")},
        sort_keys=True,
    )


def _take(needed: Needed, rules: Entries, shard: Slab) -> bool:
    """Remove from `needed` what a shard holds; return whether it held any of it."""
    taken = False
    for name, rule in shard.get("scaling", ALONE).items():
        if rules.get(name) == rule:
            found = needed[name].intersection(range(*shard["seeds"]))
            needed[name] -= found
            taken |= bool(found)
    return taken


def _cut(slab: Slab, needed: Needed, shard_seeds: int) -> Iterator[Slab]:
    """Yield new shards for the needed cells; rules that lack the same seeds share one."""
    together: dict[tuple[int, ...], list[str]] = {}
    for name, seeds in needed.items():
        if seeds:
            together.setdefault(tuple(sorted(seeds)), []).append(name)
    for lacking, names in together.items():
        for start, stop in blocks(lacking, shard_seeds):
            part = slab | {"seeds": [start, stop]}
            if "scaling" in slab:
                part["scaling"] = {name: slab["scaling"][name] for name in names}
            yield part


def blocks(seeds: Sequence[int], size: int) -> Iterator[tuple[int, int]]:
    """Yield runs of consecutive seeds, each at most `size` long, as (start, stop).

    >>> list(blocks([0, 1, 2, 3, 4, 7], 2))
    [(0, 2), (2, 4), (4, 5), (7, 8)]
    """
    start = previous = seeds[0]
    for seed in [*seeds[1:], None]:
        if seed != previous + 1 or seed - start == size:
            yield start, previous + 1
            start = seed if seed is not None else start
        previous = seed if seed is not None else previous
