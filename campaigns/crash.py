"""Stop a run at random moments or inside the writing of a file, and check that nothing is lost.

    python -m campaigns.crash [--times 50] [--signal KILL|TERM|INT] [--seed 0]
    python -m campaigns.crash --inside [--only WORD]

Each trial stops the whole process group of a smoke run at a random moment or, with --inside, at
three moments of the writing of each kind of file of a small run. Then it runs the same command
again. Nothing is lost if that run completes, every table, figure, digest and configuration has the
bytes of an undisturbed run, no half-written file is left, and no shard that was whole when the
signal came was computed again.
"""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from sqrtdk.storage import atomic, shard_files
from sqrtdk.workflow import parser as workflow_parser

ROOT = Path(__file__).resolve().parents[1]

FAULTS = str(Path(__file__).with_name("faults"))
"""Value of PYTHONPATH that brings faults into every process of a run."""

OF_THE_TIME = re.compile(r"^logs/|^\.?(report\.html|provenance\.json)")
"""Files of a run that contain the time; all others have the same bytes every time."""

SMOKE = ("grid=smoke",)
SMALL = (
    *("experiments=related", "inputs=[gaussian,sphere]", "d_k=[1,4]", "n_k=4", "n_q=3"),
    *("shard_seeds=1", "seeds=2"),
)
"""A small run with every kind of file."""

WHOLE_OR_ABSENT = ("half", "before", "after")
OPENED = {
    ".snakemake/metadata": r"\.snakemake/metadata/",
    ".snakemake/incomplete": r"\.snakemake/incomplete/",
    "results/.lock": r"results/\.lock",
    "progress.log": r"progress\.log",
    "a job's benchmark": r"results/shards/.*\.tsv",
}
"""Files that are not written atomically: the run is killed while they exist and are empty."""


def command(folder: Path, grid: tuple[str, ...]) -> list[str]:
    """Return the command of a run in its own folder."""
    return [
        sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"),
        "--workflow-profile", str(ROOT / "profiles/default"), "--directory", str(folder),
        "--config", *grid,
    ]  # fmt: skip


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a run that are the same every time."""
    run = folder / "results/default"
    files = {str(path.relative_to(run)): path for path in run.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not OF_THE_TIME.search(name)}


def whole(folder: Path) -> dict[str, int]:
    """Return the whole shards and when they were written, in nanoseconds."""
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in (folder / "results/shards").glob("*/*.csv")
        if shard_files.is_valid_shard(path)
    }


def start(
    folder: Path, grid: tuple[str, ...], output: IO[str] | int = subprocess.PIPE, **variables: str
) -> subprocess.Popen[str]:
    """Start a run in its own process group."""
    return subprocess.Popen(
        command(folder, grid), cwd=ROOT, start_new_session=True, text=True,
        env=os.environ | variables, stdout=output, stderr=subprocess.STDOUT,
        # A campaign that was started in the background may ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def end(process: subprocess.Popen[str]) -> tuple[float, str]:
    """Wait for a stopped run; return how many seconds that took, and its last line."""
    sent = time.monotonic()
    try:
        output, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += "\nhung for a minute"
    lines = output.strip().splitlines()
    return time.monotonic() - sent, lines[-1] if lines else ""


def lost(folder: Path, grid: tuple[str, ...], expected: dict[str, bytes]) -> tuple[int, list[str]]:
    """Run the command again; return how many shards were kept, and what was lost."""
    before = whole(folder)
    again = subprocess.run(
        command(folder, grid), cwd=ROOT, check=False, capture_output=True, text=True
    )
    found = []
    if again.returncode:
        found.append(f"exit {again.returncode}: {again.stdout}{again.stderr}")
    same = contents(folder)
    found += [f"{name} differs" for name in expected if same.get(name) != expected[name]]
    found += [f"{name} is new" for name in same.keys() - expected.keys()]
    after = whole(folder)
    found += [f"{name} computed again" for name, at in before.items() if after.get(name) != at]
    found += [f"{path} is left" for path in (folder / "results").rglob(f"*{atomic.PARTIAL}")]
    return len(before), found


def undisturbed(grid: tuple[str, ...]) -> tuple[float, dict[str, bytes], list[str]]:
    """Return the seconds of a whole run, its contents, and the names of all of its files."""
    with tempfile.TemporaryDirectory() as scratch:
        began = time.monotonic()
        subprocess.run(command(Path(scratch), grid), cwd=ROOT, check=True, capture_output=True)
        length = time.monotonic() - began
        files = [str(x.relative_to(scratch)) for x in Path(scratch).glob("results/**/*")]
        print(f"undisturbed: {length:.1f} s", flush=True)
        return length, contents(Path(scratch)), files


def at_random(times: int, number: signal.Signals, seed: int) -> Iterator[tuple[str, list[str]]]:
    """Run trials at random moments; yield a description and the losses of each."""
    length, expected, _ = undisturbed(SMOKE)
    rng = random.Random(seed)
    done = 0
    while done < times:
        moment = rng.uniform(0, length)
        with tempfile.TemporaryDirectory() as scratch:
            process = start(Path(scratch), SMOKE)
            try:
                process.communicate(timeout=moment)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, number)
            else:
                # The run ended before its signal, so it is not a trial.
                length = moment
                continue
            took, line = end(process)
            # Python itself was still starting, and has its default signal handlers.
            early = process.returncode == -number and not Path(scratch, "results").exists()
            n_kept, found = lost(Path(scratch), SMOKE, expected)
        heeded = process.returncode == 128 + number and took <= 5
        if number != signal.SIGKILL and not (heeded or early):
            found.append(f"exit {process.returncode} after {took:.1f} s: {line}")
        done += 1
        yield f"{number.name} at {moment:.1f} s, {n_kept} shards kept", found


def kinds(files: list[str]) -> dict[str, str]:
    """Return the kinds of files that are written atomically, each with a regular expression.

    If one function writes many files (shards, figures, digests), the first one stands for all.
    """
    many = {
        r"results/shards/related/\.?dk": "a shard",
        r"results/shards/exact/\.?nk": "a shard of exact values",
        r"/figures/.*\.svg": "a figure, SVG",
        r"/figures/.*\.png": "a figure, PNG",
        r"\.sha256": "a digest",
        r"\.snakemake/sqrtdk/\.?\w+\.yaml": "the configuration that is asked for",
    }
    result = dict(zip(many.values(), many, strict=True))
    for name in files:
        single = not any(re.search(pattern, name) for pattern in many)
        if single and Path(name).suffix in (".csv", ".yaml", ".json", ".html"):
            # A temporary file has the name after a dot.
            parent, last = os.path.split(name)
            result[name] = rf"{re.escape(parent)}/\.?{re.escape(last)}(\.\w+{atomic.PARTIAL})?$"
    return result


def inside(only: str) -> Iterator[tuple[str, list[str]]]:
    """Run trials inside the writing of each kind of file; yield a description and the losses."""
    _, expected, files = undisturbed(SMALL)
    plan = [(kind, at, rx) for kind, rx in kinds(files).items() for at in WHOLE_OR_ABSENT]
    plan += [(kind, "opened", pattern) for kind, pattern in OPENED.items()]
    for kind, moment, pattern in (one for one in plan if only in one[0]):
        variables = {
            "PYTHONPATH": FAULTS,
            "FAULT_FILE": pattern,
            "FAULT_MOMENT": moment,
        }
        with tempfile.TemporaryDirectory() as scratch:
            process = start(Path(scratch), SMALL, **variables)
            end(process)
            n_kept, found = lost(Path(scratch), SMALL, expected)
        if process.returncode != -signal.SIGKILL:
            found.append(f"never killed, exit {process.returncode}")
        yield f"KILL inside {kind}, {moment}, {n_kept} shards kept", found


def main() -> None:
    """Run the trials; exit 1 if anything was lost."""
    parser = workflow_parser.Parser(description=__doc__)
    parser.add_argument("--times", type=workflow_parser.whole, default=50)
    parser.add_argument("--signal", choices=("KILL", "TERM", "INT"), default="KILL")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inside", action="store_true")
    parser.add_argument("--only", default="", help="a word of the kinds of files")
    options = parser.parse_args()
    number = signal.Signals[f"SIG{options.signal}"]
    trials = (
        inside(options.only) if options.inside else at_random(options.times, number, options.seed)
    )
    n_lost = n_trials = 0
    for what, found in trials:
        n_trials += 1
        n_lost += bool(found)
        print(f"{n_trials}: {what}, " + ("LOST: " + "\n".join(found) if found else "nothing lost"),
              flush=True)  # fmt: skip
    print(f"{n_trials} trials, lost {n_lost}")
    sys.exit(n_lost > 0)


if __name__ == "__main__":
    main()
