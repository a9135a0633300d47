"""Compute a shard of exact expectations."""

import math
import sys
from pathlib import Path
from typing import get_args

from sqrtdk.storage import shard_files
from sqrtdk.system import command_line, errors
from sqrtdk.theory.points import COLUMNS, of, rows
from sqrtdk.theory.related import Kind


def main() -> None:
    """Compute the points given as JSON, the first argument, into the shard named by the second."""
    spec = errors.read_json(sys.argv[1], "the points of a shard")
    try:
        found = of(spec)
    except (KeyError, TypeError, ValueError):
        found = []
    if not found or not all(x > 0 and math.isfinite(x) for point in found for x in point[:3]):
        raise errors.UserError(
            'points: allowed: {"points": [[n_k, d_k, scale, kind, correlation, alignment], ...]}, '
            f"the first three above 0, the kind one of {', '.join(get_args(Kind))}"
        )
    shard_files.write_shard(Path(sys.argv[2]), spec, rows(found), COLUMNS)


if __name__ == "__main__":
    command_line.run(main, "POINTS", "SHARD.csv")
