"""Start two runs in one folder, and dry runs at the same time, and check that they are safe.

    python -m campaigns.together [--times 20] [--seed 0] [--no-locks]

The second run starts at a random moment of the first. One of the two must complete. The other one
either comes late enough to find everything done, or is refused with one line. Then the first is
killed (kill -9) in the middle, and a second one must resume at once. A dry run must work at any
time. Nothing is lost if all of that holds and the tables are those of an undisturbed run. With
--no-locks the file system has no flock, like some network file systems.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from campaigns import crash
from sqrtdk.workflow import parser as workflow_parser

REFUSED = "sqrtdk: another run is at work in results/"


def dry_runs(folder: Path, stop: threading.Event, failed: list[str]) -> None:
    """Start dry runs one after another until stopped."""
    while not stop.is_set():
        dry = subprocess.run(
            [*crash.command(folder, crash.SMALL), "--dry-run"],
            cwd=crash.ROOT, check=False, capture_output=True, text=True,
        )  # fmt: skip
        if dry.returncode:
            failed.append(f"a dry run failed: {dry.stdout}{dry.stderr}")


def two(folder: Path, delay: float, **variables: str) -> tuple[str, list[str]]:
    """Start two runs, the second one later; return the outcome, and what is wrong with it."""
    stop, failed = threading.Event(), list[str]()
    beside = threading.Thread(target=dry_runs, args=(folder, stop, failed))
    beside.start()
    first = crash.start(folder, crash.SMALL, **variables)
    time.sleep(delay)
    second = crash.start(folder, crash.SMALL, **variables)
    said = [process.communicate()[0] for process in (first, second)]
    stop.set()
    beside.join()
    codes = [first.returncode, second.returncode]
    if codes != [0, 0]:
        if 0 not in codes:
            failed += ["neither completed", *said]
        ours = [line for line in said[codes.index(max(codes))].splitlines() if "sqrtdk: " in line]
        if len(ours) != 1 or not ours[0].startswith(REFUSED):
            failed += ["not refused with one line", *said]
    return "both completed" if codes == [0, 0] else "one was refused", failed


def after_a_kill(folder: Path, delay: float, **variables: str) -> list[str]:
    """Kill a run after its first shards and start another one at once; return what is wrong."""
    process = crash.start(folder, crash.SMALL, **variables)
    while not crash.whole(folder) and process.poll() is None:
        time.sleep(0.05)
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    again = crash.start(folder, crash.SMALL, **variables)
    said, _ = again.communicate()
    return [f"a dead run blocks: {said}"] if again.returncode else []


def main() -> None:
    """Run the trials; exit 1 if anything was lost."""
    parser = workflow_parser.Parser(description=__doc__)
    parser.add_argument("--times", type=workflow_parser.whole, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-locks", action="store_true")
    options = parser.parse_args()
    faults = {"PYTHONPATH": crash.FAULTS, "FAULT_NO_LOCKS": "1"} if options.no_locks else {}
    length, expected, _ = crash.undisturbed(crash.SMALL)
    rng = random.Random(options.seed)
    n_lost = 0
    for trial in range(1, options.times + 1):
        delay = rng.uniform(0, 1.2 * length)
        with tempfile.TemporaryDirectory() as scratch:
            what, found = two(Path(scratch), delay, **faults)
            found += crash.lost(Path(scratch), crash.SMALL, expected)[1]
        with tempfile.TemporaryDirectory() as scratch:
            found += after_a_kill(Path(scratch), rng.uniform(0, 2), **faults)
            found += crash.lost(Path(scratch), crash.SMALL, expected)[1]
        n_lost += bool(found)
        print(f"{trial}: the second after {delay:.1f} s, {what}, "
              + ("LOST: " + "\n".join(found) if found else "nothing lost"), flush=True)  # fmt: skip
    print(f"{options.times} trials, lost {n_lost}")
    sys.exit(n_lost > 0)


if __name__ == "__main__":
    main()
