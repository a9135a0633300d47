"""Measure the shards of one job, as its job file says (`storage/job_files.py`).

A shard that is done keeps a hidden name until all of them are: Snakemake deletes the outputs of a
job that has failed or is repeated, and the next attempt takes up the hidden ones.
"""

import importlib
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sqrtdk.experiments import cells
from sqrtdk.experiments.base import load
from sqrtdk.schema import Column, Document
from sqrtdk.storage import atomic, job_files, shard_files
from sqrtdk.storage.tables import Row
from sqrtdk.system import command_line, memory

Measured = tuple[list[Row], Sequence[Column]]


def hidden(path: Path) -> Path:
    """Return the name of a shard that is done while others of its job are not."""
    return path.with_name(f".{path.name}.done")


def measuring(experiment: str, counted: Callable[[Iterator[Any]], Any]) -> Callable[..., Measured]:
    """Return the function that measures a slab; `counted` passes cells through."""
    if experiment == job_files.EXACT:
        # By its name, because it loads SciPy, which nothing else needs here.
        points = importlib.import_module("sqrtdk.theory.points")
        return lambda spec: (points.rows(points.of(spec)), points.COLUMNS)
    known = load(experiment, "experiment").EXPERIMENT

    def measure(slab: Document) -> Measured:
        found = counted(iter(known.cells(slab)))
        return cells.measure_cells(found, known.columns, slab), known.columns

    return measure


def lacking_memory(experiment: str, slab: Document) -> str | None:
    """Return why a slab does not fit into the memory of this machine, or None if it does."""
    if experiment == job_files.EXACT:
        return None
    estimate = load(experiment, "experiment").EXPERIMENT.memory
    need, free = estimate(slab) if estimate else 0, memory.free_memory()
    if need <= free:
        return None
    axes = " ".join(f"{name}={value}" for name, value in slab.items() if isinstance(value, int))
    gib = [f"{count / 2**30:,.1f} GiB" for count in (need, free)]
    return f"{axes}: a cell needs {gib[0]} of memory; {gib[1]} are free for this job"


def run(job: job_files.Job) -> None:
    """Measure the shards of a job. Raises SystemExit with a line for each cell that failed."""
    n_cells, failed = 0, list[str]()

    def counted(some: Iterator[Any]) -> Iterator[Any]:
        nonlocal n_cells
        for cell in some:
            n_cells += 1
            yield cell

    measure = measuring(job.experiment, counted)
    for name, slab in job.shards.items():
        path = hidden(Path(name))
        if shard_files.is_valid_shard(path) and shard_files.read_slab(path) == slab:
            continue
        # On this machine, the process that plans has checked it, before other jobs took theirs.
        if job.is_remote and (why := lacking_memory(job.experiment, slab)):
            n_cells += 1
            failed.append(why)
            continue
        began = time.monotonic()
        try:
            rows, columns = measure(slab)
        except cells.FailedCells as error:
            failed += error.lines
        else:
            shard_files.write_shard(path, slab, rows, columns)
            if len(job.shards) > 1:
                write_cost(Path(name).with_suffix(".tsv"), time.monotonic() - began)
    if failed:
        raise cells.FailedCells(failed, n_cells)
    for name in job.shards:
        os.replace(hidden(Path(name)), name)


def write_cost(path: Path, seconds: float) -> None:
    """Write what a shard took, in the columns of Snakemake's benchmark of a job."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    atomic.write_atomically(path, f"s\tmax_rss\n{seconds:.4f}\t{largest:.2f}\n")


def main() -> None:
    """Measure the shards whose paths are the arguments, which are those of one job file."""
    job = job_files.read(job_files.address(sys.argv[1:]))
    job_files.check_code(job)
    run(job)


if __name__ == "__main__":
    command_line.run(main, "SHARD.csv", "SHARD.csv...")
