"""How long jobs took in earlier runs: on this machine, and as usual on another one.

Each kind of job has what its jobs took, and the units of their work. For the shards of an
experiment a unit is a second of its estimate. Any other job is one unit, and its kind ends in the
size of its run, because tables of many rows take longer: `merge scaling@5`. The usual times count
only relative to each other: the kinds that this machine has a record of say how fast it is.
"""

import contextlib
import json
import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sqrtdk.storage import atomic

USUAL = Path(__file__).with_name("times.json")
"""The usual times: the record of a machine that has made the default run, that of the research grid
and the smoke run, because tables of a small run take a tenth of the time. To renew it, copy
`.snakemake/sqrtdk/times-NAME.json` after the three runs on an idle machine."""

OTHER_SECONDS = 1.5
"""Time of a job that measures no shard and whose rule has no record: most of it is imports."""

ON_CLUSTER = "cluster "
"""What precedes the experiment in the kind of a job on a cluster."""


class Taken(NamedTuple):
    """What the jobs of a kind took in seconds, and the units of their work."""

    seconds: float
    units: float


Record = Mapping[str, Taken]


def size_of(seconds: float) -> int:
    """Return the size of a run of so many estimated seconds, in half powers of ten.

    >>> [size_of(seconds) for seconds in (0, 10, 30, 420, 1600)]
    [0, 2, 3, 5, 6]
    """
    return round(2 * math.log10(max(1.0, seconds)))


@dataclass(frozen=True)
class Times:
    """What a unit of a kind of work takes, from the record of this machine and the usual times."""

    own: Record = field(default_factory=dict)
    usual: Record = field(default_factory=dict)

    def each(self, kind: str) -> float:
        """Return the seconds that a unit of a kind takes."""
        name, _, size = kind.partition("@")
        choices: list[Callable[[str], bool]] = [lambda other: other == name]
        if size:
            rule = name.partition(" ")[0]
            choices += [lambda other: other.partition(" ")[0] == rule]
        else:
            experiment = name.removeprefix(ON_CLUSTER)
            choices += [lambda other: other == experiment, lambda other: True]
        for is_like in choices:
            for record, slowness in ((self.own, 1.0), (self.usual, self.slowness)):
                # A target has the name of its experiment, whose shards are another kind.
                found = [
                    other
                    for other in record
                    if ("@" in other) == bool(size) and is_like(other.partition("@")[0])
                ]
                if found:
                    return slowness * _mean(record, _nearest(found, size))
        return self.slowness * (OTHER_SECONDS if size else 1.0)

    @property
    def slowness(self) -> float:
        """Return how many times longer than usual the shards of this machine's record took."""
        common = [kind for kind in self.own if kind in self.usual and "@" not in kind]
        usual = sum(_mean(self.usual, [kind]) * self.own[kind].units for kind in common)
        return sum(self.own[kind].seconds for kind in common) / usual if common else 1.0

    def with_run(self, done: Record) -> Record:
        """Return the record of this machine after a run. A large run outweighs smaller ones.

        What was there before counts less, the more units the run has done: half if as many.
        """
        merged = dict(self.own)
        for kind, (seconds, units) in done.items():
            if seconds > 0 and units > 0:
                before = self.own.get(kind, Taken(0.0, 0.0))
                kept = before.units / (before.units + units)
                merged[kind] = Taken(seconds + kept * before.seconds, units + kept * before.units)
        return merged


def _mean(record: Record, kinds: list[str]) -> float:
    return sum(record[kind].seconds for kind in kinds) / sum(record[kind].units for kind in kinds)


def _nearest(kinds: list[str], size: str) -> list[str]:
    """Return the kinds whose runs had the nearest size; all of them if there is no size."""
    if not size:
        return kinds
    away = {kind: abs(int(kind.partition("@")[2]) - int(size)) for kind in kinds}
    return [kind for kind in kinds if away[kind] == min(away.values())]


def record_path(folder: Path) -> Path:
    """Return the file of this machine's record in a folder."""
    return folder / f"times-{platform.node() or 'here'}.json"


def read(path: Path) -> Record:
    """Return the record of a file, without what is none; nothing if it cannot be read."""
    try:
        pairs = json.loads(path.read_text(encoding="utf-8")).items()
    except (OSError, ValueError, AttributeError):
        return {}
    found = {}
    for kind, pair in pairs:
        with contextlib.suppress(ValueError, TypeError):
            taken = Taken(*map(float, pair))
            # A kind ends in a size, if it has one.
            int(kind.partition("@")[2] or 0)
            if 0 < taken.seconds < math.inf and 0 < taken.units < math.inf:
                found[kind] = taken
    return found


def write(path: Path, record: Record) -> None:
    """Keep a record for later runs; without a place for it, it is not kept."""
    lines = [
        f"{json.dumps(kind)}: [{seconds:.4g}, {units:.4g}]"
        for kind, (seconds, units) in sorted(record.items())
    ]
    with contextlib.suppress(OSError):
        atomic.write_atomically(path, "{\n" + ",\n".join(lines) + "\n}\n")
