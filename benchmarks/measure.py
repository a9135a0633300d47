"""Time the contestants, and measure memory, start-up and the whole run: one row per round.

    python -m benchmarks.measure PART rounds.csv [--rounds 5] [--quick]

Everything that is compared is measured in the same rounds, in turn, as CPU time of one process.
So other load of the machine affects all contestants equally.
"""

import csv
import importlib.util
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from benchmarks import ROOT, contestants, slabs
from benchmarks.contestants import Case, Run
from sqrtdk.storage import atomic, provenance
from sqrtdk.system import command_line
from sqrtdk.workflow import parser as workflow_parser

NS = (16, 64, 256, 1024)
DS = (1, 4, 16, 64, 256, 1024, 4096)

EVERYWHERE = (
    "floor", "random_floor", "random_numbers", "kernel_gram", "kernel_direct", "columns",
    "chapter", "readable",
)  # fmt: skip
TORCH = ("torch_batched",)
JAX = ("jax_batched",)

LEAST = 0.02
"""Minimum CPU seconds of a round: the clock of a process ticks in microseconds."""


class Row(NamedTuple):
    """One number of one round. `n`, `d` and `dtype` are empty where they have no meaning."""

    benchmark: str
    contestant: str
    dtype: str
    n: int | str
    d: int | str
    round: int
    value: float
    unit: str


def entrants(case: Case) -> list[str]:
    """Return the contestants of a case; slow ones only where they are the point."""
    names = list(EVERYWHERE)
    if importlib.util.find_spec("torch"):
        names += TORCH
        if case.n == 16:
            names.append("torch_single")
        if case.d == 64:
            names.append("torch_forward")
    if importlib.util.find_spec("jax") and case.n * case.d <= 2**18:
        names += JAX
    if case.d == 64:
        names += ["jacobian", "forward_readable"]
    return names


def race(grid: Sequence[Case], rounds: int, names: Sequence[str] | None = None) -> Iterator[Row]:
    """Yield the CPU seconds of one cell with both rules, for every contestant and round.

    The contestants are `names`, or by default the `entrants` of the case.
    """
    for case in grid:
        runs = {name: getattr(contestants, name)(case) for name in names or entrants(case)}
        repeats = {name: _repeats(run) for name, run in runs.items()}
        for number in range(rounds):
            for name, run in runs.items():
                seconds = _cpu(run, repeats[name]) / case.cells
                yield Row("race", name, case.dtype, case.n, case.d, number, seconds, "s")
        print(f"n={case.n} d={case.d} {case.dtype}", file=sys.stderr, flush=True)


def _repeats(run: Run) -> int:
    # The first call allocates buffers and compiles, so it is not timed.
    run()
    return max(1, round(LEAST / max(_cpu(run, 1), 1e-6)))


def _cpu(run: Run, repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        run()
    return (time.process_time() - start) / repeats


def child(command: Sequence[str], folder: Path = ROOT) -> tuple[float, str]:
    """Run a process; return its CPU seconds, including its children, and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=_environment()
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, done.stdout


def _environment() -> dict[str, str]:
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def primitives(benchmark: str, rounds: int) -> Iterator[Row]:
    """Yield nanoseconds per number for an array that fits into a core's cache."""
    x = np.random.Generator(np.random.Philox(0)).standard_normal((32, 1024)) - 4.0
    out, row = np.empty_like(x), np.empty(len(x))
    runs: dict[str, Run] = {
        "np.exp": lambda: np.exp(x, out=out),
        "np.multiply": lambda: np.multiply(x, x, out=out),
        "np.vecdot": lambda: np.vecdot(x, x, out=row),
    }
    repeats = {name: _repeats(run) for name, run in runs.items()}
    for number in range(rounds):
        for name, run in runs.items():
            nanoseconds = 1e9 * _cpu(run, repeats[name]) / x.size
            yield Row(benchmark, name, "float64", "", "", number, nanoseconds, "ns")


WIDE = ("X86_V4", "AVX512")
"""Prefixes of NumPy's names of instruction sets with vectors of 512 bits."""

NARROW_CASES = [Case(n, d, "float64") for n in NS for d in DS if d <= 64]

NARROW = ("floor", "kernel_direct", "kernel_gram")


def narrow(rounds: int, *, few: bool) -> Iterator[Row]:
    """Repeat the comparison in a process whose NumPy must not use 512-bit vectors.

    Yields nothing on a machine without them. It shows how much of a ratio is due to the speed of
    exp alone.
    """
    found = np.show_config(mode="dicts") or {}
    names = found.get("SIMD Extensions", {}).get("found", [])
    wide = [name for name in names if name.startswith(WIDE)]
    if not wide:
        return
    before = os.environ.get("NPY_DISABLE_CPU_FEATURES", "")
    os.environ["NPY_DISABLE_CPU_FEATURES"] = " ".join([before, *wide]).strip()
    try:
        arguments = ["--rounds", str(rounds), *(["--quick"] if few else [])]
        command = [sys.executable, "-m", "benchmarks.measure", "narrow-child", "-", *arguments]
        _, printed = child(command)
    finally:
        os.environ["NPY_DISABLE_CPU_FEATURES"] = before
    for words in csv.reader(printed.splitlines()):
        benchmark, contestant, dtype, n, d, number, value, unit = words
        yield Row(benchmark, contestant, dtype, n, d, int(number), float(value), unit)


def narrow_child(rounds: int, *, few: bool) -> None:
    """Print the rows of `narrow`."""
    wanted = NARROW_CASES[:1] if few else NARROW_CASES
    rows = list(primitives("primitive, narrow", rounds))
    rows += (row._replace(benchmark="race, narrow") for row in race(wanted, rounds, NARROW))
    csv.writer(sys.stdout, lineterminator="\n").writerows(rows)


def memory(named: Mapping[str, Mapping[str, Any]], rounds: int) -> Iterator[Row]:
    """Yield the MiB of a job's peak above its memory after all imports."""
    for number in range(rounds):
        for name, slab in named.items():
            _, printed = child([sys.executable, "-m", "benchmarks.slabs", "peak", json.dumps(slab)])
            mib, seconds = map(float, printed.split())
            axes = slab["dtype"], slab["n_k"], slab["d_k"], number
            yield Row("memory", name, *axes, mib, "MiB")
            yield Row("memory time", name, *axes, seconds, "s")


SATURATING = ("entropy_nats", "max_weight_gap", "jacobian_norm", "grad_q_rms", "grad_q_median")


def single(ds: Sequence[int], rounds: int) -> Iterator[Row]:
    """Yield the error of float32, relative to float64 on the same draw, without scaling.

    A round is a seed: another draw, not another timing.
    """
    for d in ds:
        for number in range(rounds):
            double, single = (
                slabs.row(256, d, dtype=dtype, seed=number) for dtype in ("float64", "float32")
            )
            for metric in SATURATING:
                one, other = float(single[metric]), float(double[metric])
                error = abs(one - other) / other
                yield Row("float32", metric, "float32", 256, d, number, error, "relative")


def workers(named: Mapping[str, Mapping[str, Any]], rounds: int) -> Iterator[Row]:
    """Yield CPU seconds of a whole shard job, and of its random numbers and kernel only."""
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(rounds):
            for name, slab in named.items():
                axes = slab["dtype"], slab["n_k"], slab["d_k"], number
                job = [sys.executable, "-m", "sqrtdk.jobs.measure", "scaling"]
                used, _ = child([*job, json.dumps(slab), str(Path(scratch) / "shard.csv")])
                yield Row("worker", f"{name}: job", *axes, used, "s")
                _, printed = child(
                    [sys.executable, "-m", "benchmarks.slabs", "bare", json.dumps(slab)]
                )
                bare = float(printed)
                yield Row("worker", f"{name}: random numbers and kernel", *axes, bare, "s")


STARTS = {
    "python alone": ("-c", ""),
    "job of a shard": ("-c", "import sqrtdk.experiments.scaling.measure"),
    "job of exact values": ("-c", "import sqrtdk.jobs.expect"),
    "job of a summary": ("-c", "import sqrtdk.jobs.summarize"),
    "job of figures": ("-c", "import sqrtdk.experiments.scaling.figures"),
    "job of the report": ("-c", "import sqrtdk.report.__main__"),
    "one cell by hand": ("-m", "sqrtdk.run", "d_k=16", "n_k=16", "n_q=16"),
    "snakemake --version": ("-m", "snakemake", "--version"),
    "dry run of the default grid": ("-m", "snakemake", "--dry-run", "--quiet", "all"),
}


def starts(rounds: int) -> Iterator[Row]:
    """Yield CPU seconds of processes that do almost nothing."""
    for number in range(rounds):
        for name, arguments in STARTS.items():
            used, _ = child([sys.executable, *arguments])
            yield Row("start", name, "", "", "", number, used, "s")


def whole(rounds: int, values: Mapping[str, str]) -> Iterator[Row]:
    """Yield CPU and wall seconds of a run into an empty folder, and of its bare cells."""
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as scratch:
            started = time.monotonic()
            command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
            profile = ["--workflow-profile", str(ROOT / "profiles/default")]
            given = [f"{key}={value}" for key, value in values.items()]
            used, _ = child([*command, *profile, "--directory", scratch, "--config", *given])
            yield Row("whole", "run: CPU", "", "", "", number, used, "s")
            yield Row("whole", "run: wall", "", "", "", number, time.monotonic() - started, "s")
            _, printed = child(
                [sys.executable, "-m", "benchmarks.slabs", "run", json.dumps(values)]
            )
            bare = float(printed)
            yield Row("whole", "random numbers and kernel", "", "", "", number, bare, "s")


def machine(rounds: int) -> dict[str, Any]:
    """Return the origin of the numbers: machine, versions and load."""
    extra = {}
    for name in ("torch", "jax"):
        if importlib.util.find_spec(name):
            extra[name] = str(__import__(name).__version__)
    return {
        "rounds": rounds,
        "load": [round(load, 2) for load in os.getloadavg()],
        "machine": provenance.this_machine(),
        "blas": provenance.blas(),
        "versions": provenance.versions() | extra,
        "code": provenance.revision(ROOT / "src/sqrtdk"),
    }


def cases(dtype: str, *, few: bool) -> list[Case]:
    """Return the grid of one dtype."""
    return [Case(n, d, dtype) for n in NS for d in DS if not few or n * d <= 64]


PARTS: dict[str, Callable[[int, bool], Iterable[Row]]] = {
    "float64": lambda rounds, few: race(cases("float64", few=few), rounds),
    "float32": lambda rounds, few: race(cases("float32", few=few), rounds),
    "primitives": lambda rounds, few: primitives("primitive", rounds),
    "narrow": lambda rounds, few: narrow(rounds, few=few),
    "accuracy": lambda rounds, few: single(DS[:2] if few else DS, rounds),
    "memory": lambda rounds, few: memory(slabs.QUICK if few else slabs.MEMORY, rounds),
    "workers": lambda rounds, few: workers(slabs.QUICK if few else slabs.WORKERS, rounds),
    "starts": lambda rounds, few: starts(rounds),
    "whole": lambda rounds, few: whole(rounds, slabs.SMALL_RUN if few else slabs.RUN),
}
"""The parts of the benchmark. Each has its own table, so that finished parts are kept."""


def main() -> None:
    """Measure a part; write its rounds and, next to them, the machine."""
    parser = workflow_parser.Parser(description=__doc__)
    parser.add_argument("part", choices=[*PARTS, "narrow-child"], help="what to measure")
    parser.add_argument("path", type=Path, help="CSV file of the rounds")
    parser.add_argument(
        "--rounds", type=workflow_parser.whole, default=5, help="rounds, 5 at least for a page"
    )
    parser.add_argument("--quick", action="store_true", help="the smallest of everything")
    options = parser.parse_args()
    if options.part == "narrow-child":
        narrow_child(options.rounds, few=options.quick)
        return
    if psutil.Process().num_threads() > 1:
        sys.exit("sqrtdk: NumPy loaded with more than one BLAS thread; CPU times would count all")
    record = machine(options.rounds)
    rows = list(PARTS[options.part](options.rounds, options.quick))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(Row._fields)
    # A time has fewer than six significant digits.
    writer.writerows(row._replace(value=float(f"{row.value:.6g}")) for row in rows)
    atomic.write_atomically(options.path, buffer.getvalue())
    record["load after"] = [round(load, 2) for load in os.getloadavg()]
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    atomic.write_atomically(options.path.with_suffix(".json"), text)


if __name__ == "__main__":
    command_line.run(main)
