"""Time whole runs, each in an empty folder, and write where their time goes.

    python -m campaigns.runs docs/performance-runs.md [--runs 5] [--research 1] [--keep FOLDER]

CPU time is that of the run's process and of all processes that it waited for. The table of parts
adds up what the jobs of the last run report of themselves; the rest is Snakemake and the start of
the servers that jobs are forks of. Each folder is empty, so the time left is promised as to a
newcomer. A grid with 0 runs keeps what the page says of it.
"""

import argparse
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from campaigns import promises
from sqrtdk.storage import atomic, provenance

ROOT = Path(__file__).resolve().parents[1]


class Run(NamedTuple):
    """Seconds of a run: by the clock, of processors, and until the first figure was there.

    `promised` is the promised whole time over the true one, after each tenth of the run.
    """

    wall: float
    cpu: float
    first_figure: float
    promised: list[float]


def measure(folder: Path, words: list[str]) -> Run:
    """Run the pipeline in an empty folder. Raises CalledProcessError if it fails."""
    before = _children()
    began, clock = time.time(), time.monotonic()
    command = [sys.executable, str(ROOT / "run.py"), "--directory", str(folder), *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall = time.monotonic() - clock
    figures = [path.stat().st_mtime for path in folder.glob("results/*/figures/*.png")]
    (log,) = folder.glob("results/*/logs/progress.log")
    promised = promises.promised(log.read_text(encoding="utf-8"))
    return Run(wall, _children() - before, min(figures) - began, promised)


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


def heading(words: list[str]) -> str:
    """Return the heading of the section about a grid."""
    return f"## `{' '.join(['python3 run.py', *words])}`"


def kept(page: Path, words: list[str]) -> list[str]:
    """Return the lines about a grid that the page has."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    _, found, rest = text.partition(f"{heading(words)}\n")
    return [heading(words), *rest.partition("\n## ")[0].splitlines()] if found else []


def section(runs: list[Run], of_last: Counter[str], words: list[str], load: float) -> list[str]:
    """Return the lines about the runs of a grid."""
    columns = {"wall, s": "wall", "CPU, s": "cpu", "first figure, s": "first_figure"}
    rows = [[str(n), *(f"{x:.1f}" for x in run[:3])] for n, run in enumerate(runs, 1)]
    middle = [statistics.median(getattr(run, name) for run in runs) for name in columns.values()]
    rows.append(["median", *(f"{x:.1f}" for x in middle)])
    rest = runs[-1].cpu - of_last.total()
    shares = [*of_last.most_common(), ("Snakemake, and starting", rest)]
    return [
        heading(words),
        "",
        f"Code: {provenance.revision(ROOT / 'src' / 'sqrtdk')['commit'][:7]}. Load average over "
        f"one minute before the first run: {load:.2f}.",
        "",
        f"| run | {' | '.join(columns)} |",
        "|---|---:|---:|---:|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        "The promised whole time over the true one, after 10, 20, … 90 % of each run:",
        "",
        *(f"- {', '.join(f'{share:.2f}' for share in run.promised)}" for run in runs),
        "",
        "Where the CPU time of the last run went, as its jobs report it:",
        "",
        "| part | CPU, s |",
        "|---|---:|",
        *(f"| {name} | {seconds:.1f} |" for name, seconds in shares),
        "",
    ]


def main() -> None:
    """Run, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--runs", type=int, default=5, help="runs of the default grid")
    parser.add_argument("--research", type=int, default=1, help="runs of the research grid")
    parser.add_argument("--keep", type=Path, help="folder for what the runs write")
    given = parser.parse_args()
    lines = list[str]()
    for words, count in (([], given.runs), (["--config", "grid=research"], given.research)):
        found: list[Run] = []
        of_last: Counter[str] = Counter()
        # From before the runs, because they cause load themselves.
        load = os.getloadavg()[0]
        for n in range(count):
            with tempfile.TemporaryDirectory() as scratch:
                found.append(measure(Path(scratch), words))
                of_last = parts(Path(scratch))
                if given.keep:
                    shutil.copytree(Path(scratch), given.keep / f"{'-'.join(words[1:])}-{n}")
            print(f"{words} {n + 1}: {found[-1]}", flush=True)
        lines += section(found, of_last, words, load) if found else kept(given.page, words)
    top = [
        "# Whole runs",
        "",
        "`python -m campaigns.runs docs/performance-runs.md` writes this page: whole runs in empty "
        "folders, one after the other. CPU time is that of all processes of a run. Machine: "
        f"{os.cpu_count()} cores ({platform.machine()}, Python {platform.python_version()}).",
        "",
    ]
    atomic.write_atomically(given.page, "\n".join([*top, *lines]))


if __name__ == "__main__":
    main()
