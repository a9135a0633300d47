"""The gaps below the largest logit of a row, and the scale at which its competitors fall behind."""

import math

import numpy as np

from sqrtdk.core.shapes import Floats


def separation(logits: Floats) -> Floats:
    """Return for each row the factor at which all competitors together weigh as much as the top.

    Shape: logits [n_rows, n_k], -inf where a key is hidden; result [n_rows]. With N(g) competitors
    within the gap g of the largest logit, it is the b that solves b ∫ exp(-b g) N(g) dg = 1, which
    is the sum of exp(-b g) over the competitors. Below it they outweigh the largest one, above it
    the largest has more than half of the weight. The idea that the number of competitors within
    each gap sets the scale is that of Hayase and Karakida 2026 (arXiv 2605.12697), the definition
    is ours. Inf where the two largest are equal, 0 where there is at most one competitor. Error
    below 1e-8 of ln(n) over the smallest gap, where bisection starts.
    """
    rising = np.sort(logits, axis=-1)
    gaps = rising[:, -1:] - rising[:, :-1]
    competitors = np.count_nonzero(gaps < np.inf, axis=-1)
    if gaps.shape[1] == 0:
        return np.zeros(len(gaps))
    nearest = gaps[:, -1]
    # All competitors at the nearest gap need the largest factor.
    tied = (nearest == 0) & (competitors > 0)
    high = np.log(np.maximum(competitors, 1)) / np.where(nearest > 0, nearest, 1.0)
    low = np.zeros(len(gaps))
    for _ in range(27):
        middle = (low + high) / 2
        # A factor of 0 times a hidden gap is undefined, and stands for one competitor or none.
        with np.errstate(invalid="ignore"):
            total = np.sum(np.exp(-middle[:, np.newaxis] * gaps), axis=-1)
        above = total < 1.0
        high, low = np.where(above, middle, high), np.where(above, low, middle)
    found = np.where(competitors > 1, (low + high) / 2, 0.0)
    return np.where(tied, np.inf, found)


def growth(separations: Floats, n_visible: Floats) -> float:
    """Return the power of ln n that the separations of rows follow, n their numbers of keys.

    It is the least-squares slope of ln(separation) on ln ln n. NaN unless two rows that see
    different numbers of keys, at least 2, have a separation that is finite and above 0.
    """
    known = np.isfinite(separations) & (separations > 0) & (n_visible > 1)
    x, y = np.log(np.log(n_visible[known])), np.log(separations[known])
    if len(x) < 2 or np.ptp(x) == 0:
        return math.nan
    centred = x - x.mean()
    return float(centred @ y / (centred @ centred))
