"""Compute by how much a metric changed between two runs, with an interval over seeds.

A seed gives the same draws in both runs, so runs that have seeds in common are compared seed by
seed. This is also valid if the draws differ: it then gains nothing. Runs without a common seed are
two independent samples.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtrit

from sqrtdk.stats.intervals import (
    Estimate,
    MissingError,
    interval,
    paired_ratio,
    statistics,
    typical_interval,
)

Kind = Literal["difference", "ratio"]

ROUNDING = 1e-11
"""Largest relative difference of values that count as the same. Other machines changed values by at
most 1.2e-13; an interval of such differences would say nothing about the runs."""

SAME = "same"
WITHIN = "within"
DIFFERS = "differs"
UNKNOWN = "unknown"
OUTCOMES = {
    SAME: f"every value is the same, to a relative {ROUNDING:g}",
    WITHIN: "the interval contains no change",
    DIFFERS: "the interval excludes no change",
    UNKNOWN: "the values differ and there is no interval, as with one seed",
}


class Change(NamedTuple):
    """A metric in two runs.

    `first` and `second` are its means, pooled as in summary.csv, over the seeds that are compared.
    `change` is second minus first, or second over first, depending on `kind`.
    """

    first: float
    second: float
    kind: Kind
    change: Estimate
    outcome: str


def change(first: np.ndarray, second: np.ndarray, *, pool: str = "mean", paired: bool) -> Change:
    """Return the change of a metric from the first run to the second.

    A column pooled as rms or as median can spread over decades, so its change is a ratio, with the
    intervals of `paired_ratio`; where the ratio is undefined, as for a gradient of 0, it is a
    difference. The change of any other column is a difference, with Student's t-interval.
    Independent samples have Welch's intervals; for medians, the extremes of both intervals, which
    is wider than 95 %.

    >>> change(np.array([1.0, 2.0]), np.array([3.0, 4.0]), paired=True).change.mean
    2.0
    """
    before, after = (statistics(values, pool=pool)["mean"] for values in (first, second))
    same = paired and np.allclose(first, second, rtol=ROUNDING, atol=0.0)
    kind: Kind = "difference" if pool == "mean" else "ratio"
    found = Estimate(math.nan)
    if kind == "ratio":
        try:
            found = _ratio(first, second, pool=pool, paired=paired)
        except MissingError:
            kind = "difference"
    if kind == "difference":
        found = _difference(first, second, paired=paired)
    if same:
        outcome = SAME
    elif math.isnan(found.low):
        outcome = UNKNOWN
    else:
        none = 1.0 if kind == "ratio" else 0.0
        outcome = WITHIN if found.low <= none <= found.high else DIFFERS
    return Change(before, after, kind, found, outcome)


def _difference(first: np.ndarray, second: np.ndarray, *, paired: bool) -> Estimate:
    if paired:
        return Estimate(float(np.mean(second - first)), *interval(second - first))
    mean = float(np.mean(second) - np.mean(first))
    half = _welch(first, second)
    return Estimate(mean, mean - half, mean + half)


def _ratio(first: np.ndarray, second: np.ndarray, *, pool: str, paired: bool) -> Estimate:
    """Return second over first. Raises MissingError where the ratio is undefined or 0."""
    if np.any(first < 0) or np.any(second < 0) or not (np.any(first) and np.any(second)):
        raise MissingError("the ratio is undefined")
    if paired:
        return paired_ratio(second, first, pool=pool)
    over, under = (statistics(values, pool=pool)["mean"] for values in (second, first))
    if not under > 0 or not over > 0:
        raise MissingError("the ratio is undefined")
    ratio = over / under
    if pool == "median":
        (above, top), (bottom, below) = typical_interval(second), typical_interval(first)
        return Estimate(ratio, above / below, top / bottom if bottom > 0 else math.inf)
    # Of the logarithm of the mean square, by the delta method.
    half = _welch((first / under) ** 2, (second / over) ** 2) / 2
    return Estimate(ratio, ratio * math.exp(-half), ratio * math.exp(half))


def _welch(first: np.ndarray, second: np.ndarray) -> float:
    """Return half the width of Welch's 95 % interval of a difference; NaN for a single value."""
    sizes = len(first), len(second)
    if min(sizes) < 2:
        return math.nan
    errors = [float(np.var(x, ddof=1)) / len(x) for x in (first, second)]
    total = sum(errors)
    if total == 0:
        return 0.0
    freedom = total**2 / sum(e**2 / (n - 1) for e, n in zip(errors, sizes, strict=True))
    return float(stdtrit(freedom, 0.975) * total**0.5)
