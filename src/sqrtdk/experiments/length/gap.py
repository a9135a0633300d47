"""Compute the gap-counting scale of a law of rows: where the largest scores come apart.

It is the median over rows of `core.gaps.separation`, for the law and not for some of its rows, so
that it has next to no noise. Of a row only the `TOP` largest scores are drawn, exactly: with E_k
exponential, -ln of the probability below the k-th largest of n is E_1/n + E_2/(n-1) + ... +
E_k/(n-k+1) (Rényi 1953). The others are below them, and their sum is near its mean.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy  # its modules load at first use, because the start of a run needs none of them

from sqrtdk.core.shapes import Floats, Mask
from sqrtdk.experiments.length.rows import ACROSS, COSINE, HEAD, stream

ROWS, TOP = 2**15, 128
"""Rows that the median is of, which give it a standard error below 0.5 %; scores drawn of each."""

STEPS = 24
"""Halvings of the interval of the median, to 1e-7 of it."""

RATE = math.sqrt(2)
"""Rate of the exponential tails of variance 1."""


class _Rows(NamedTuple):
    """Rows of scores as far as the gaps need them.

    `top` [n_rows, k] are the largest scores of keys other than the match, in falling order,
    `match` [n_rows, 1] is the score of the match, -inf without one, and `scale` [n_rows, 1] turns
    scores into logits.
    """

    top: Floats
    match: Floats
    scale: Floats

    def of(self, rows: Mask) -> "_Rows":
        return _Rows(*(values[rows] for values in self))


@lru_cache(maxsize=256)
def gap_scale(law: str, n_k: int, seed: int = 0) -> float:
    """Return the median over rows of the factor at which the largest scores come apart.

    0 for two keys, of which one is always the larger. `seed` is that of the draw.
    """
    if n_k <= 2:
        return 0.0
    n = n_k - (law == "planted")
    rows = _draw(stream(law, n_k, seed, calibration=True), law, n)
    half, below = ROWS / 2, 0
    low, high = 0.0, 1.0
    while np.count_nonzero(_apart(rows, law, n, high)) < half:
        low, high = high, 2 * high
    for _ in range(STEPS):
        # Rows that come apart below `low` or above `high` are decided, and left out.
        middle = (low + high) / 2
        apart = _apart(rows, law, n, middle)
        count = int(np.count_nonzero(apart))
        if below + count >= half:
            high, rows = middle, rows.of(apart)
        else:
            low, below, rows = middle, below + count, rows.of(~apart)
    return (low + high) / 2


def _draw(generator: np.random.Generator, law: str, n: int) -> _Rows:
    k = min(TOP, n)
    steps = generator.standard_exponential((ROWS, k))
    steps /= n - np.arange(k)
    below = np.cumsum(steps, axis=1, out=steps)
    if law == "exponential":
        unit = np.ones((ROWS, 1))
        return _Rows(_laplace_quantile(below), np.full((ROWS, 1), -np.inf), unit)
    norm = np.sqrt(generator.chisquare(HEAD, size=(ROWS, 1)))
    along = COSINE * norm + ACROSS * generator.standard_normal((ROWS, 1))
    match = along if law == "planted" else np.full((ROWS, 1), -np.inf)
    return _Rows(-scipy.special.ndtri(-np.expm1(-below)), match, norm / math.sqrt(HEAD))


def _apart(rows: _Rows, law: str, n: int, factor: float) -> Mask:
    """Return for each row whether its largest score has half of the weight or more."""
    scale = factor * rows.scale
    largest = np.maximum(rows.top[:, :1], rows.match)
    total = np.sum(np.exp(scale * (rows.top - largest)), axis=1, keepdims=True)
    total += np.exp(scale * (rows.match - largest))
    if n > rows.top.shape[1]:
        mean = _laplace_below if law == "exponential" else _normal_below
        last = rows.top[:, -1:]
        total += (n - rows.top.shape[1]) * np.exp(mean(scale, last) - scale * largest)
    return np.asarray(total[:, 0] <= 2.0)


def _laplace_quantile(below: Floats) -> Floats:
    """Return x with P(X <= x) = exp(-below)."""
    above = -np.expm1(-below)
    upper = -np.log(2 * np.minimum(above, 0.5))
    return np.where(above < 0.5, upper, math.log(2) - below) / RATE


def _normal_below(scale: Floats, end: Floats) -> Floats:
    """Return ln E[exp(scale X) | X < end] of a normal X."""
    log_ndtr = scipy.special.log_ndtr
    return np.asarray(scale**2 / 2 + log_ndtr(end - scale) - log_ndtr(end))


def _laplace_below(scale: Floats, end: Floats) -> Floats:
    """Return ln E[exp(scale X) | X < end], X of variance 1 with exponential tails."""
    low, high = np.minimum(end, 0.0), np.maximum(end, 0.0)
    off = scale - RATE
    # (exp(off high) - 1) / off, which is `high` at off = 0.
    rising = np.where(off == 0, high, np.expm1(off * high) / np.where(off == 0, 1.0, off))
    total = RATE / 2 * (np.exp((scale + RATE) * low) / (scale + RATE) + rising)
    probability = np.where(end < 0, np.exp(RATE * low) / 2, 1 - np.exp(-RATE * high) / 2)
    return np.asarray(np.log(total / probability))
