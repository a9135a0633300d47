"""Compute a shard of exact expectations."""

import math
import sys
from pathlib import Path

from sqrtdk.storage import shard_files
from sqrtdk.system import command_line, errors
from sqrtdk.theory.points import COLUMNS, Point, rows


def main() -> None:
    """Compute the points given as JSON, the first argument, into the shard named by the second."""
    spec = errors.read_json(sys.argv[1], "the points of a shard")
    try:
        found = [Point(int(n_k), float(d_k), float(scale)) for n_k, d_k, scale in spec["points"]]
    except (KeyError, TypeError, ValueError):
        found = []
    if not found or not all(x > 0 and math.isfinite(x) for point in found for x in point):
        raise errors.UserError('points: allowed: {"points": [[n_k, d_k, scale], ...]}, all above 0')
    shard_files.write_shard(Path(sys.argv[2]), spec, rows(found), COLUMNS)


if __name__ == "__main__":
    command_line.run(main, "POINTS", "SHARD.csv")
