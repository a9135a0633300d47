"""Find where a function changes its sign along a grid, and describe the roots of all seeds."""

from collections.abc import Callable

import numpy as np

from sqrtdk.core.slopes import sign_change
from sqrtdk.schema import Column
from sqrtdk.stats.intervals import interval


def exact_root(function: Callable[[float], float], grid: np.ndarray) -> float:
    """Return `sign_change` of a function on a grid, computed at as few points as bisection needs.

    The function has at most one change of sign; NaN without one between the ends.
    """
    low, high = 0, len(grid) - 1
    ends = {low: function(float(grid[low])), high: function(float(grid[high]))}
    if np.sign(ends[low]) * np.sign(ends[high]) > 0:
        return float("nan")
    while high - low > 1:
        middle = (low + high) // 2
        ends[middle] = function(float(grid[middle]))
        if np.sign(ends[middle]) == np.sign(ends[low]):
            low = middle
        else:
            high = middle
    return sign_change(grid[[low, high]], np.array([ends[low], ends[high]]))


def root_columns(what: str, most: float) -> tuple[Column, ...]:
    """Return the columns of a root over seeds, on a grid from 0 to `most`."""
    return (
        Column("n_seeds", f"Seeds with a best {what} between 0 and {most:g}.", "seeds", read=int),
        Column(
            "n_without", f"Seeds whose slope has the same sign at every {what}.", "seeds", read=int
        ),
        Column("mean", f"Best {what}, mean over seeds. Empty if no seed has one.", optional=True),
        Column("ci_low", "Lower end of its 95 % t-interval.", optional=True),
        Column("ci_high", "Upper end of its 95 % t-interval.", optional=True),
        Column(
            "exact", "The same root of the exact means. Empty where there is none.", optional=True
        ),
    )


def root_row(found: np.ndarray, exact: float) -> dict[str, float]:
    """Return these columns of a row, from the root of each seed, NaN where there is none."""
    known = found[~np.isnan(found)]
    low, high = interval(known)
    return {
        "n_seeds": len(known),
        "n_without": len(found) - len(known),
        "mean": float(known.mean()) if len(known) else np.nan,
        "ci_low": low,
        "ci_high": high,
        "exact": exact,
    }
