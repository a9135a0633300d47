"""Compute the statistics of many samples at once: each row of [samples, seeds] is one.

`intervals` explains the statistics and has them for one sample. A row has the same bits here and
there, whatever the other rows: sums run along rows, and powers and exponentials of what they give
are those of the C library, one by one.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betaincinv, ndtri, stdtrit

Rows: TypeAlias = NDArray[np.float64]
"""Samples [samples, seeds], or one number for each of them [samples]."""

Ends: TypeAlias = tuple[Rows, Rows]


def interval(values: Rows, *, confidence: float = 0.95) -> Ends:
    """Return Student's t-intervals of the means; NaN for fewer than two seeds."""
    count = values.shape[-1]
    if count < 2:
        return _no_interval(values)
    mean = np.mean(values, axis=-1)
    half = stdtrit(count - 1, 0.5 + confidence / 2) * np.std(values, ddof=1, axis=-1) / count**0.5
    return mean - half, mean + half


def median_interval(values: Rows, *, confidence: float = 0.95) -> Ends:
    """Return the intervals of the medians, between two order statistics; NaN for too few seeds."""
    count = values.shape[-1]
    # The values left out at either end: the median is beyond them rarely enough.
    beyond = bdtr(np.arange(count // 2), count, 0.5)
    out = int(np.count_nonzero(beyond <= (1 - confidence) / 2))
    if out == 0:
        return _no_interval(values)
    ordered = np.sort(values, axis=-1)
    return ordered[:, out - 1], ordered[:, -out]


def typical(values: Rows) -> Rows:
    """Return the medians; for an even number of seeds, geometric means of the middle two."""
    ordered = np.sort(values, axis=-1)
    count = values.shape[-1]
    low, high = ordered[:, (count - 1) // 2], ordered[:, count // 2]
    geometric = (low > 0) & (low < high) & (high < math.inf)
    with np.errstate(all="ignore"):
        # The product of the roots neither underflows nor overflows.
        middle = np.where(geometric, np.sqrt(low) * np.sqrt(high), (low + high) / 2)
    return np.where(low == high, low, middle)


def typical_interval(values: Rows) -> Ends:
    """Return the 95 % intervals of the medians of values that are not negative."""
    low, high = median_interval(values)
    if values.shape[-1] < 2:
        return low, high
    low, high = low.copy(), high.copy()
    by_logs = np.isnan(low) & np.all((values > 0) & (values < np.inf), axis=-1)
    if by_logs.any():
        with np.errstate(over="ignore"):
            ends = interval(np.log(values[by_logs]))
            low[by_logs], high[by_logs] = (np.exp(end) for end in ends)
    with np.errstate(invalid="ignore"):
        same = np.ptp(values, axis=-1) == 0
    low[same] = high[same] = values[same, 0]
    return low, high


def share_interval(values: Rows, *, counted: NDArray[np.int64], independent: Rows) -> Ends:
    """Return the 95 % intervals of shares of `counted` things [samples], `independent` of them."""
    seeds, mean = values.shape[-1], np.mean(values, axis=-1)
    if seeds < 2:
        return _no_interval(values)
    number = (seeds * counted).astype(np.float64)
    error = np.var(values, ddof=1, axis=-1) / seeds
    some = (mean > 0) & (mean < 1)
    with np.errstate(all="ignore"):
        spread = np.where(error > 0, mean * (1 - mean) / error, number)
    effective = np.where(some, spread, seeds * independent)
    effective = effective * float(ndtri(0.975) / stdtrit(seeds - 1, 0.975)) ** 2
    effective = np.minimum(np.maximum(effective, seeds), number)
    events, others = mean * effective, (1 - mean) * effective
    low, high = np.zeros_like(mean), np.ones_like(mean)
    above, below = mean > 0, mean < 1
    low[above] = betaincinv(events[above], others[above] + 1, 0.025)
    high[below] = betaincinv(events[below] + 1, others[below], 0.975)
    return low, high


def reciprocal_interval(values: Rows) -> Ends:
    """Return the 95 % intervals of the means of positive values, from those of the reciprocals."""
    mean = np.mean(values, axis=-1)
    low, _ = interval(values)
    with np.errstate(all="ignore"):
        half = np.where(mean > 0, (mean - low) / mean, 0.0)
        return mean / (1 + half), np.where(half >= 1, np.inf, mean / (1 - half))


def around_one(deviations: Rows) -> Ends:
    """Return the factors to the ends of the t-intervals of ln mean; NaN for one seed."""
    count = deviations.shape[-1]
    if count < 2:
        return _no_interval(deviations)
    error = np.std(deviations, ddof=1, axis=-1) / count**0.5
    half = float(stdtrit(count - 1, 0.975)) * error
    return _each(math.exp, -half), _each(math.exp, half)


def near_one(values: Rows) -> tuple[Rows, NDArray[np.int32]]:
    """Divide each row by a power of two close to its largest value; return the exponents too."""
    _, unit = np.frexp(np.max(np.abs(values), axis=-1))
    return np.ldexp(values, -unit[:, np.newaxis]), unit


def statistics(
    values: Rows,
    *,
    pool: str = "mean",
    exact: Rows,
    counted: NDArray[np.int64] | None = None,
    independent: Rows | None = None,
    skewed: bool = False,
) -> dict[str, Rows]:
    """Return the statistics of one metric for samples of one size; see `intervals.statistics`."""
    near, unit = near_one(values)
    with np.errstate(over="ignore"):
        target = np.ldexp(exact, -unit)
    count = values.shape[-1]
    pooled = near * near if pool == "rms" else near
    mean = np.mean(pooled, axis=-1)
    error = (
        np.std(pooled, ddof=1, axis=-1) / count**0.5 if count > 1 else np.full(len(mean), np.nan)
    )
    sd = np.std(near, ddof=1, axis=-1) if count > 1 else np.full(len(mean), np.nan)
    centre = _each(lambda x: x**0.5, mean) if pool == "rms" else mean
    found = {"mean": centre, "sd": sd, "median": np.median(near, axis=-1)}
    found = {name: np.ldexp(number, unit) for name, number in found.items()}
    if pool == "median":
        found["mean"] = typical(values)
        low, high = typical_interval(values)
    elif pool == "rms":
        with np.errstate(all="ignore"):
            share = np.where((mean > 0)[:, np.newaxis], pooled / mean[:, np.newaxis], pooled)
        low, high = (found["mean"] * _each(lambda x: x**0.5, end) for end in around_one(share))
    elif counted is not None:
        things = counted.astype(np.float64) if independent is None else independent
        low, high = share_interval(values, counted=counted, independent=things)
    elif skewed:
        low, high = reciprocal_interval(values)
    else:
        low, high = (np.ldexp(end, unit) for end in interval(near))
    if pool == "rms":
        target = _each(lambda x: x**2, target)
    with np.errstate(all="ignore"):
        # If nothing varies over seeds there is no standard error to divide by.
        known = (error > 0) if pool != "median" else np.zeros(len(mean), np.bool_)
        z = np.where(known, (mean - target) / error, np.nan)
    return {
        "n_seeds": np.full(len(mean), count, dtype=np.float64),
        **found,
        "ci_low": low,
        "ci_high": high,
        "exact": exact,
        "z": z,
    }


def _no_interval(values: Rows) -> Ends:
    nothing = np.full(values.shape[:-1], np.nan)
    return nothing, nothing


def _each(function: Callable[[float], float], values: Rows) -> Rows:
    """Apply a function of Python's floats; a result beyond the largest float is infinite."""
    return np.array([_or_infinity(function, value) for value in values.tolist()], np.float64)


def _or_infinity(function: Callable[[float], float], value: float) -> float:
    try:
        return function(value)
    except OverflowError:
        return math.inf
