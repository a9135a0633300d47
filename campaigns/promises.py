"""Compare the time that a run promised with the time that it took.

    python -m campaigns.promises results/default results/research

Reads the lines of progress that each run has kept, and prints the promised whole time over the true
one after each tenth of the run.
"""

import math
import re
import sys
from pathlib import Path

LINE = re.compile(r"([\d:]+) passed, about ([\d:]+) left")


def seconds(clock: str) -> int:
    """Return the seconds of h:mm:ss or m:ss.

    >>> seconds("1:15"), seconds("1:01:40")
    (75, 3700)
    """
    found = 0
    for part in clock.split(":"):
        found = 60 * found + int(part)
    return found


def promised(log: str) -> list[float]:
    """Return the promised whole time over the true one after each tenth of a run.

    NaN as long as nothing is promised.
    """
    lines = [(seconds(passed), seconds(left)) for passed, left in LINE.findall(log)]
    whole = lines[-1][0]
    before = [[line for line in lines if line[0] <= whole * n / 10] for n in range(1, 10)]
    return [sum(some[-1]) / whole if some else math.nan for some in before]


def main() -> None:
    """Print a row for each run."""
    print("| run | " + " | ".join(f"{n}0 %" for n in range(1, 10)) + " |")
    for name in sys.argv[1:]:
        log = Path(name, "logs", "progress.log").read_text(encoding="utf-8")
        print(f"| {name} | " + " | ".join(f"{share:.2f}" for share in promised(log)) + " |")


if __name__ == "__main__":
    main()
