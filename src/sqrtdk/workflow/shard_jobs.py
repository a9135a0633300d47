"""The jobs that make a run's shards: what each measures, and what it needs.

Everything is decided here, once, before the first job starts; job files carry it to the jobs
(`storage/job_files.py`). On this machine each missing shard is a job. On a cluster, where starting
a job takes seconds, a job has several shards.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from snakemake.exceptions import WorkflowError

from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Document
from sqrtdk.storage import job_files
from sqrtdk.storage.job_files import EXACT
from sqrtdk.storage.planning import Plan

EXACT_MODULE = "sqrtdk.theory.points"

POINT_SECONDS = 0.01
"""About how long one point of a shard of expectations takes."""

START_SECONDS = 0.5
"""About how long a process takes to start and to import what measures."""

BASE_MB = 500
"""Memory of a job on a cluster before it measures: its own imports, and twice those of Snakemake,
which starts each job. Measured: 60 to 120 MB, and 125 MB each."""

MARGIN = 1.25
"""Factor on the estimated memory of a slab, so that a small mistake does not end a job."""

SLOWER = 4
"""How many times slower than the machine of the estimates a node may be before a job that has
reached its time limit is repeated with twice as much time."""

MOST_SHARDS = 500
"""Maximum shards of a job. Their paths are one argument of a shell: Linux allows 128 KiB."""


class Shard(NamedTuple):
    """What a shard holds: the experiment, or `EXACT`, and its slab or points."""

    experiment: str
    slab: Document


def seconds(experiment: str, slab: Document) -> float:
    """Return about how long a shard takes on one core, without the start of a process."""
    if experiment == EXACT:
        return POINT_SECONDS * len(slab["points"])
    start, stop = slab["seeds"]
    each = EXPERIMENTS[experiment].seconds
    return float((stop - start) * (each(slab) if each else 0.1))


def memory(experiment: str, slab: Document) -> int:
    """Return the peak memory of a shard in bytes, beyond imports; 0 if it is not estimated."""
    estimate = None if experiment == EXACT else EXPERIMENTS[experiment].memory
    return estimate(slab) if estimate else 0


class ShardJobs:
    """The shards of a run by their paths, and the jobs that make them.

    `free` is the memory of this machine in bytes. `minutes` is the duration that a job on a cluster
    should have, and None if all jobs run on this machine.
    """

    def __init__(
        self,
        shards: Mapping[str, Shard],
        missing: Collection[str],
        *,
        free: int,
        minutes: float | None = None,
    ) -> None:
        self._shards, self._free, self._minutes = shards, max(1, free), minutes
        self.batches = [] if minutes is None else list(self._batches(missing, 60 * minutes))

    def __iter__(self) -> Iterator[str]:
        """Return the paths of all shards."""
        return iter(self._shards)

    def slab(self, path: str) -> Document:
        """Return the slab of a shard, or the points of one of expectations."""
        return self._of(path).slab

    def _of(self, path: str) -> Shard:
        try:
            return self._shards[path]
        except KeyError:
            raise WorkflowError(f"sqrtdk: {path} is not a shard of this configuration") from None

    def work(self, path: str) -> tuple[str, float]:
        """Return what a shard belongs to, an experiment or `EXACT`, and about how long it takes."""
        shard = self._of(path)
        return shard.experiment, seconds(*shard)

    def threads(self, path: str, cores: int | None) -> int:
        """Return the cores that a shard job occupies, so that all of its cells fit into memory.

        A job computes with one thread. The other cores that it occupies keep other jobs from
        starting. `cores` are those of the run. On a cluster each job asks for its memory instead.
        """
        if self._minutes is not None:
            return 1
        share = memory(*self._of(path)) / self._free
        return max(1, math.ceil(share * (cores or 1)))

    def job(self, paths: Iterable[str]) -> job_files.Job:
        """Return the job that makes some shards of one experiment."""
        found = {path: self._of(path) for path in paths}
        experiment = next(iter(found.values())).experiment
        module = EXACT_MODULE if experiment == EXACT else EXPERIMENTS[experiment].measured_by
        files = job_files.files_of(module)
        work = START_SECONDS + sum(itertools.starmap(seconds, found.values()))
        largest = max(itertools.starmap(memory, found.values()))
        return job_files.Job(
            experiment,
            {path: shard.slab for path, shard in found.items()},
            module,
            files,
            job_files.bytes_digest(files),
            memory_mb=BASE_MB + math.ceil(MARGIN * largest / 2**20),
            minutes=2 + math.ceil(SLOWER * work / 60),
            is_remote=self._minutes is not None,
        )

    def mem_mb(self, path: str, attempt: int) -> int:
        """Return the memory that the job of a single shard asks for, in MB."""
        return self.job([path]).mem_mb(None, attempt)

    def runtime(self, path: str, attempt: int) -> int:
        """Return the time that the job of a single shard asks for, in minutes."""
        return self.job([path]).runtime(None, attempt)

    def write(self, jobs: Iterable[Any]) -> None:
        """Write the job files of those of some Snakemake jobs that make shards."""
        for job in jobs:
            outputs = [str(path) for path in job.output]
            if outputs and outputs[0] in self._shards:
                job_files.write(self.job(outputs))

    def _batches(self, missing: Collection[str], duration: float) -> Iterable[job_files.Job]:
        """Yield jobs of about that duration in seconds, each of one experiment.

        The slabs of a job need about the same memory: one large slab would otherwise reserve its
        memory for the time of many small ones.
        """
        together: dict[tuple[str, int], list[str]] = {}
        for path, (experiment, slab) in self._shards.items():
            if path in missing:
                size = int(MARGIN * memory(experiment, slab) / 2**20)
                # Below the memory of the imports, differences do not matter.
                together.setdefault((experiment, max(size, BASE_MB).bit_length()), []).append(path)
        for paths in together.values():
            batch: list[str] = []
            left = duration
            for path in paths:
                work = seconds(*self._shards[path])
                if batch and (work > left or len(batch) == MOST_SHARDS):
                    yield self.job(batch)
                    batch, left = [], duration
                batch.append(path)
                left -= work
            yield self.job(batch)


def shards_of(
    plans: Mapping[str, Plan], exact: Mapping[str, Mapping[str, Document]]
) -> dict[str, Shard]:
    """Return all shards of a run: those of each experiment, and each one's of expectations."""
    found = {
        str(path): Shard(name, cast(Document, slab))
        for name, plan in plans.items()
        for path, slab in plan.shards.items()
    }
    return found | {
        path: Shard(EXACT, points) for specs in exact.values() for path, points in specs.items()
    }
