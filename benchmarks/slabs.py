"""The slabs of `scaling` for measuring memory and whole cost, and the process that runs them."""

import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import cast

from sqrtdk.config import compose
from sqrtdk.core import input_laws, kernel, kernel_sizes, scale_rules
from sqrtdk.experiments import cells
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.jobs import measure as measure_job
from sqrtdk.schema import Slab
from sqrtdk.storage.planning import slabs
from sqrtdk.storage.tables import Row
from sqrtdk.system import command_line, errors


def slab(n: int, d_k: int, *, seeds: int, dtype: str = "float64", n_q: int = 0) -> Slab:
    """Return a slab of gaussian cells with scaling off and on; n_q is n by default."""
    return {
        "d_k": d_k, "n_k": n, "n_q": n_q or n, "d_v": 64,
        "inputs": {"gaussian": {"law": "gaussian"}}, "dtype": dtype,
        "scaling": {
            "off": {"rule": "constant", "value": 1.0},
            "on": {"rule": "power", "exponent": 0.5},
        },
        "seeds": [0, seeds],
    }  # fmt: skip


MEMORY = {
    "n = d = 1024": slab(1024, 1024, seeds=1),
    "n = 64, 1 seed": slab(64, 64, seeds=1),
    "n = 64, 100 seeds": slab(64, 64, seeds=100),
    "n = 64, 1000 seeds": slab(64, 64, seeds=1000),
    "n = 1024": slab(1024, 64, seeds=1),
    "n = 4096": slab(4096, 64, seeds=1),
    "n = 16384": slab(16384, 64, seeds=1),
    "n_k = 65536, 64 queries": slab(65536, 64, seeds=1, n_q=64),
    "n_k = 65536, 512 queries": slab(65536, 64, seeds=1, n_q=512),
    "n_k = 65536, 512 queries, float32": slab(65536, 64, seeds=1, n_q=512, dtype="float32"),
}
"""Slabs whose peak memory is on the page, and the sizes that it grows with."""

WORKERS = {
    "n_k = 16, d_k = 64": slab(16, 64, seeds=12000, n_q=64),
    "n_k = 256, d_k = 256": slab(256, 256, seeds=1600, n_q=64),
    "n = 256, d_k = 64": slab(256, 64, seeds=800),
}
"""Jobs of a few seconds: small cells, cells of the default grid, and square cells."""

QUICK = {"n = 16": slab(16, 4, seeds=2)}

RUN = {"experiments": "scaling"}
SMALL_RUN = RUN | {"grid": "smoke"}


def row(n: int, d_k: int, *, dtype: str, seed: int) -> Row:
    """Return the row of one cell without scaling."""
    wanted = slab(n, d_k, seeds=0, dtype=dtype, n_q=64)
    wanted["seeds"] = [seed, seed + 1]
    return next(
        found
        for found in cells.measure_cells(scaling.cells(wanted), scaling.COLUMNS)
        if found["scaling"] == "off"
    )


def bare(slab: Slab) -> None:
    """Run the random numbers and the kernel of a slab, without columns, rows and files."""
    sizes = {"d_k": slab["d_k"], "n_k": slab["n_k"], "n_q": slab["n_q"], "d_v": slab["d_v"]}
    ((law),) = slab["inputs"].values()
    rules = [
        scale_rules.rule(entry, d_k=slab["d_k"], n_k=slab["n_k"])
        for entry in slab["scaling"].values()
    ]
    core = kernel.Kernel()
    seeds = range(*slab["seeds"])
    size = kernel_sizes.batch_size(slab["n_q"], slab["n_k"], slab["d_k"], slab["d_v"])
    below = 1e-3 / slab["n_k"] * slab["d_v"] ** 0.5
    drawn = partial(input_laws.draw, law, **sizes, dtype=slab["dtype"])
    for start in range(0, len(seeds), size):
        draws = [drawn(seed=seed) for seed in seeds[start : start + size]]
        core.measure(*scaling.batch(core, draws), rules, dead_below=below)


def bare_run(values: Mapping[str, str]) -> None:
    """Run the random numbers and the kernel of all cells of `scaling` of a run."""
    settings = compose.compose([], values).settings["scaling"]
    for one in slabs(settings):
        one["seeds"] = [settings["seed"][0], settings["seed"][-1] + 1]
        bare(one)


def peak_mib() -> float:
    """Return the peak memory of this process so far."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return float(line.split()[1]) / 1024
    raise RuntimeError("the peak memory of a process is known on Linux only")


def main() -> None:
    """Print the cost of a slab or a run given as JSON, measured in this process.

    `bare`: CPU seconds of a slab's random numbers and kernel. `run`: the same of a run's values.
    `peak`: the MiB and CPU seconds of a slab's cells.
    """
    what, given = sys.argv[1], errors.read_json(sys.argv[2], "a slab or a run's values")
    if what not in ("bare", "run", "peak"):
        raise errors.UserError(f"{what!r} is not allowed; allowed: bare, run or peak")
    if what != "run":
        measure_job.check_slab(given, scaling.CONFIG_KEYS)
    wanted = cast(Slab, given)
    if what in ("bare", "run"):
        start = time.process_time()
        bare(wanted) if what == "bare" else bare_run(given)
        print(time.process_time() - start)
        return
    # One cell first, because code that loads at first use belongs to the imports.
    cells.measure_cells(scaling.cells(slab(2, 2, seeds=1)), scaling.COLUMNS)
    before, start = peak_mib(), time.process_time()
    cells.measure_cells(scaling.cells(wanted), scaling.COLUMNS)
    print(peak_mib() - before, time.process_time() - start)


if __name__ == "__main__":
    command_line.run(main, "WHAT", "SLAB")
