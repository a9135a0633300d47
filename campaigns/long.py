"""Watch the memory of a long sweep: every process, from its first cell to the report.

    python -m campaigns.long [--seeds 2000]

The sweep has 50 cells for each seed, 100,000 by default, in shards of 100 seeds. Twice a second the
resident memory of every process of the run is read. It counts as lost if the run does not complete,
or if the memory of the main process when the last shard is measured is more than GROWTH times that
when a quarter of the shards was.
"""

import sys
import tempfile
import time
from pathlib import Path

import psutil

from campaigns import crash
from sqrtdk.workflow import parser as workflow_parser

GROWTH = 1.1
"""Allowed growth: memory is allocated in large pieces, which are not released at once."""


def kind(process: psutil.Process) -> str:
    """Return what a process of the run does: the module that it runs."""
    words = process.cmdline()
    if "-m" in words:
        return words[words.index("-m") + 1]
    return words[0] if words else ""


def main() -> None:
    """Run the sweep and print the memory of each kind of process; exit 1 if it is too much."""
    parser = workflow_parser.Parser(description=__doc__)
    parser.add_argument("--seeds", type=workflow_parser.whole, default=2000)
    options = parser.parse_args()
    grid = (
        *("experiments=scaling", "d_k=[1,2,4,8,16]", "n_k=[2,4,8,16,32]", "n_q=4", "d_v=4"),
        *("scaling=[off,on]", f"seeds={options.seeds}", "shard_seeds=100"),
    )
    peaks: dict[str, float] = {}
    leader: list[tuple[int, float]] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile("w+") as said:
        running = crash.start(Path(scratch), grid, output=said)
        first = psutil.Process(running.pid)
        while running.poll() is None:
            for process in (first, *first.children(recursive=True)):
                try:
                    what = "the leader" if process == first else kind(process)
                    mib = process.memory_info().rss / 2**20
                except psutil.Error:
                    continue
                peaks[what] = max(peaks.get(what, 0.0), mib)
                if process == first:
                    done = len(list(Path(scratch).glob("results/shards/scaling/*.csv")))
                    leader.append((done, mib))
            time.sleep(0.5)
        said.seek(0)
        output = said.read()
        rows = Path(scratch, "results/default/scaling/runs.csv")
        n_cells = rows.read_text().count("\n") - 1 if rows.exists() else 0
    print(f"{n_cells} cells, {time.monotonic() - began:.0f} s, exit {running.returncode}")
    for what, mib in sorted(peaks.items(), key=lambda item: -item[1]):
        print(f"{mib:7.0f} MiB at most: {what}")
    last = leader[-1][0]
    held = {
        share: next(mib for done, mib in leader if done >= share * last)
        for share in (0.25, 0.5, 0.75, 1)
    }
    print("the leader, by the share of shards that were there: "
          + ", ".join(f"{share:.0%} {mib:.0f} MiB" for share, mib in held.items()))  # fmt: skip
    if running.returncode:
        print(output)
    sys.exit(running.returncode != 0 or held[1] > GROWTH * held[0.25])


if __name__ == "__main__":
    main()
