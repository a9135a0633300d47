"""Time whole runs, each in an empty folder, and write where their time goes.

    python -m campaigns.default_run docs/performance-runs.md --runs 5

Further arguments are those of the pipeline. CPU time is that of the run's process and of all
processes that it waited for. The table of parts adds up what the jobs of the last run report of
themselves; the rest is Snakemake and the start of the servers that jobs are forks of.
"""

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from sqrtdk.storage import atomic

ROOT = Path(__file__).resolve().parents[1]


class Run(NamedTuple):
    """Seconds of a run: by the clock, of processors, and until the first figure was there."""

    wall: float
    cpu: float
    first_figure: float


def measure(folder: Path, words: list[str]) -> Run:
    """Run the pipeline in an empty folder. Raises CalledProcessError if it fails."""
    before = _children()
    began, clock = time.time(), time.monotonic()
    command = [sys.executable, str(ROOT / "run.py"), "--directory", str(folder), *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall = time.monotonic() - clock
    figures = [path.stat().st_mtime for path in folder.glob("results/*/figures/*.png")]
    return Run(wall, _children() - before, min(figures) - began)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def parts(folder: Path) -> Counter[str]:
    """Return the CPU seconds of a run's jobs, by what they are for."""
    found: Counter[str] = Counter()
    for path in folder.glob("results/**/*.tsv"):
        seconds = float(pd.read_csv(path, sep="\t")["cpu_time"].sum())
        if path.parent.name == "logs":
            found["figures" if path.stem.endswith("-draw") else "tables and report"] += seconds
        else:
            found[f"measuring `{path.parent.name}`"] += seconds
    return found


def page(runs: list[Run], of_last: Counter[str], words: list[str]) -> str:
    """Return the page."""
    columns = {"wall, s": "wall", "CPU, s": "cpu", "first figure, s": "first_figure"}
    rows = [[str(n), *(f"{x:.1f}" for x in run)] for n, run in enumerate(runs, 1)]
    middle = [statistics.median(getattr(run, name) for run in runs) for name in columns.values()]
    rows.append(["median", *(f"{x:.1f}" for x in middle)])
    rest = runs[-1].cpu - of_last.total()
    shares = [*of_last.most_common(), ("Snakemake, and starting", rest)]
    load = ", ".join(f"{x:.2f}" for x in os.getloadavg())
    command = " ".join(["python3 run.py", *words])
    return "\n".join(
        [
            "# Whole runs",
            "",
            "`python -m campaigns.default_run docs/performance-runs.md` writes this page: "
            f"`{command}` in an empty folder, {len(runs)} times in succession, on "
            f"{os.cpu_count()} cores ({platform.machine()}, Python {platform.python_version()}). "
            f"Load average over 1, 5 and 15 minutes at the end: {load}. CPU time is that of all "
            "processes of a run.",
            "",
            f"| run | {' | '.join(columns)} |",
            "|---|---:|---:|---:|",
            *(f"| {' | '.join(row)} |" for row in rows),
            "",
            "Where the CPU time of the last run went, as its jobs report it:",
            "",
            "| part | CPU, s |",
            "|---|---:|",
            *(f"| {name} | {seconds:.1f} |" for name, seconds in shares),
            "",
        ]
    )


def main() -> None:
    """Run, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    given, words = parser.parse_known_args()
    found: list[Run] = []
    for n in range(given.runs):
        with tempfile.TemporaryDirectory() as scratch:
            found.append(measure(Path(scratch), words))
            of_last = parts(Path(scratch))
        wall, cpu, first = found[-1]
        print(f"run {n + 1}: {wall:.1f} s, {cpu:.1f} CPU s, first figure {first:.1f} s", flush=True)
    atomic.write_atomically(given.page, page(found, of_last, words))


if __name__ == "__main__":
    main()
