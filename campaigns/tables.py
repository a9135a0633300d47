"""Measure what merging and summarizing cost against the number of rows, with synthetic shards.

    python -m campaigns.tables [--rows 1000 10000 100000 1000000]

Writes shards of `scaling` with random numbers, as many as a grid of 100 seeds has, then runs the
two jobs as the pipeline does, each in its own process, and prints CPU seconds, peak memory, and
the exponents by which they grow with the rows. Needs about 1 GB of disk for a million rows.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sqrtdk.config import compose
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.jobs import merge
from sqrtdk.storage import guards, shard_files, tables
from sqrtdk.theory import exact_table

ROWS = (10**3, 10**4, 10**5, 10**6)
SEEDS, RULES = 100, 2


class Cost(NamedTuple):
    """What a process took: CPU time, the largest resident memory, and the time on the clock."""

    cpu_s: float
    peak_mib: float
    wall_s: float


def sizes(rows: int) -> tuple[int, int]:
    """Return numbers of d_k and n_k whose grid has about this many rows.

    >>> sizes(10**6)
    (71, 71)
    """
    slabs = max(1, round(rows / (SEEDS * RULES)))
    d_k = max(1, round(slabs**0.5))
    return d_k, max(1, round(slabs / d_k))


def write(folder: Path, rows: int) -> int:
    """Write the configuration and the shards of a grid into a results folder; count its rows."""
    d_k, n_k = sizes(rows)
    run = compose.compose(
        [], {
            "experiments": "scaling", "name": "large", "seeds": SEEDS, "shard_seeds": SEEDS,
            "d_k": list(range(1, d_k + 1)), "n_k": list(range(2, n_k + 2)),
        },
    )  # fmt: skip
    guards.write_with_checksum(folder / "large/config.yaml", run.to_yaml())
    columns = EXPERIMENTS["scaling"].columns
    guards.write_with_checksum(
        folder / "large/scaling/exact.csv", tables.text([], exact_table.COLUMNS)
    )
    rng, written = np.random.default_rng(0), 0
    metrics = [column.name for column in columns if not column.axis]
    plan = merge.plan_of(run, "scaling", folder / "shards/scaling")
    for path in plan.missing:
        slab = plan.shards[path]
        axes = {"d_k": slab["d_k"], "n_k": slab["n_k"], "n_q": slab["n_q"]}
        found: list[tables.Row] = [
            axes
            | {"inputs": next(iter(slab["inputs"])), "dtype": slab["dtype"], "scaling": rule}
            | {"seed": seed}
            | dict(zip(metrics, rng.random(len(metrics)).tolist(), strict=True))
            for rule in slab["scaling"]
            for seed in range(*slab["seeds"])
        ]
        shard_files.write_shard(path, slab, found, columns)
        written += len(found)
    return written


def measure(*words: str) -> Cost:
    """Run a module of the pipeline and return what its process took."""
    start = time.monotonic()
    job = subprocess.Popen([sys.executable, "-m", *words])
    _, status, used = os.wait4(job.pid, 0)
    job.returncode = os.waitstatus_to_exitcode(status)
    if job.returncode:
        sys.exit(f"{words[0]} ended with {job.returncode}")
    # Linux reports KiB.
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, time.monotonic() - start)


def costs(folder: Path) -> dict[str, Cost]:
    """Run both jobs on the tables of a folder."""
    config, runs = str(folder / "large/config.yaml"), str(folder / "large/scaling/runs.csv")
    exact, summary = (str(folder / f"large/scaling/{x}.csv") for x in ("exact", "summary"))
    return {
        "merge": measure("sqrtdk.jobs.merge", config, "scaling", runs),
        "summarize": measure("sqrtdk.jobs.summarize", config, "scaling", runs, exact, summary),
    }


def exponent(rows: list[int], values: list[float]) -> float:
    """Return the slope of ln value over ln rows between the two largest tables."""
    return math.log(values[-1] / values[-2]) / math.log(rows[-1] / rows[-2])


def main() -> None:
    """Print the costs as a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS)
    done: list[int] = []
    found: list[dict[str, Cost]] = []
    print("| rows | merge: CPU s | peak MiB | summarize: CPU s | peak MiB |", flush=True)
    print("|---:|---:|---:|---:|---:|", flush=True)
    for rows in parser.parse_args().rows:
        with tempfile.TemporaryDirectory() as scratch:
            done.append(write(Path(scratch), rows))
            found.append(costs(Path(scratch)))
        cells = [f"{done[-1]:,}"]
        for cost in found[-1].values():
            cells += [f"{cost.cpu_s:.1f}", f"{cost.peak_mib:.0f}"]
        print(f"| {' | '.join(cells)} |", flush=True)
    if len(done) > 1:
        for job in found[0]:
            cpu = exponent(done, [one[job].cpu_s for one in found])
            peak = exponent(done, [one[job].peak_mib for one in found])
            print(f"{job}: CPU time grows with rows^{cpu:.2f}, memory with rows^{peak:.2f}")


if __name__ == "__main__":
    main()
