"""Compute a slope, and find where it changes its sign along a grid of a parameter."""

import numpy as np


def slope(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the least-squares slope of y [..., n] on x [n]; NaN if x has one value only.

    >>> float(slope(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])))
    2.0
    """
    centred = x - x.mean()
    with np.errstate(invalid="ignore"):
        return np.asarray(y @ centred / (centred @ centred))


def sign_change(grid: np.ndarray, values: np.ndarray) -> float:
    """Return where values first change their sign, linear between two points of the grid.

    NaN if they do not.

    >>> sign_change(np.array([0.0, 1.0, 2.0]), np.array([3.0, 1.0, -1.0]))
    1.5
    """
    changes = np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0)
    zeros = np.flatnonzero(values == 0)
    if len(zeros) and (not len(changes) or zeros[0] <= changes[0]):
        return float(grid[zeros[0]])
    if not len(changes):
        return float("nan")
    place = int(changes[0])
    low, high = values[place], values[place + 1]
    share = low / (low - high)
    return float(grid[place] + share * (grid[place + 1] - grid[place]))
