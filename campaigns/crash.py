"""Stop the smoke run at random moments, start it again, and see that nothing is lost.

    python -m campaigns.crash [--times 50] [--signal KILL|TERM|INT] [--seed 0]

Each trial sends the signal to the whole process group, at a moment drawn uniformly from the length
of an undisturbed run, then gives the same command again. It counts as lost nothing if that run
completes, every table has the bytes of the undisturbed one, and no shard that was whole when the
signal came was computed again.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sqrtdk import commands

ROOT = Path(__file__).resolve().parents[1]

TABLES = ("**/*.csv", "**/*.svg", "config.yaml")


def command(folder: Path) -> list[str]:
    """The smoke run in a folder of its own."""
    return [
        sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"),
        "--workflow-profile", str(ROOT / "profiles/default"), "--directory", str(folder),
        "--config", "grid=smoke",
    ]  # fmt: skip


def contents(folder: Path) -> dict[str, bytes]:
    """What a run leaves that is the same every time."""
    run = folder / "results/default"
    return {
        str(path.relative_to(run)): path.read_bytes()
        for pattern in TABLES
        for path in run.glob(pattern)
    }


def shards(folder: Path) -> dict[str, int]:
    """The shards that are there, and when they were written, in nanoseconds."""
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in (folder / "results/shards").glob("*/*.csv")
    }


def interrupt(folder: Path, number: signal.Signals, moment: float) -> tuple[int, float, str]:
    """Start a run, stop it at a moment: exit code, seconds that it took to end, last line."""
    process = subprocess.Popen(
        command(folder), cwd=ROOT, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=moment)
        return process.returncode, 0.0, output.strip().splitlines()[-1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, number)
    sent = time.monotonic()
    try:
        output, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += "\nhung for a minute"
    # The group's other processes are gone too, or the next run would share the folder with them.
    took = time.monotonic() - sent
    lines = output.strip().splitlines()
    return process.returncode, took, lines[-1] if lines else ""


def main() -> None:
    """Run the trials; exit 1 if anything was lost."""
    parser = commands.Parser(description=__doc__)
    parser.add_argument("--times", type=commands.whole, default=50)
    parser.add_argument("--signal", choices=("KILL", "TERM", "INT"), default="KILL")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    number = signal.Signals[f"SIG{options.signal}"]
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        start = time.monotonic()
        subprocess.run(command(Path(scratch)), cwd=ROOT, check=True, capture_output=True)
        length, expected = time.monotonic() - start, contents(Path(scratch))
    print(f"undisturbed: {length:.1f} s, {len(expected)} files", flush=True)
    lost, slowest = 0, 0.0
    for trial in range(options.times):
        with tempfile.TemporaryDirectory() as scratch:
            folder, moment = Path(scratch), rng.uniform(0, length)
            code, took, line = interrupt(folder, number, moment)
            before = shards(folder)
            again = subprocess.run(
                command(folder), cwd=ROOT, check=False, capture_output=True, text=True
            )
            after = shards(folder)
            recomputed = [name for name, when in before.items() if after.get(name) != when]
            same = contents(folder) == expected
            whole = again.returncode == 0 and same and not recomputed
            lost += not whole
            slowest = max(slowest, took)
            print(
                f"{trial + 1}: {options.signal} at {moment:.1f} s, exit {code} after {took:.2f} s, "
                f"{len(before)} shards kept, "
                + ("nothing lost" if whole else f"LOST: exit {again.returncode}, same bytes "
                   f"{same}, computed again {recomputed}\n{again.stdout}{again.stderr}")
                + f" | {line}",
                flush=True,
            )  # fmt: skip
    print(f"{options.times} times {options.signal}: lost {lost}, slowest end {slowest:.2f} s")
    sys.exit(lost > 0)


if __name__ == "__main__":
    main()
