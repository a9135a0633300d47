"""Compute numbers with intervals from values over seeds.

Curves over d_k are in `curves`, the wording in `wording`, and the formulas, which work for many
samples at once, in `by_row`. Nothing here depends on a table or a claim.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import betaincinv

from sqrtdk.schema import ANY
from sqrtdk.stats import by_row

T = TypeVar("T")


class MissingError(Exception):
    """The run lacks the data that a number needs; the message is the reason in words."""


class Estimate(NamedTuple):
    """A number with its interval. The ends are NaN without an interval, `exact` without theory."""

    mean: float
    low: float = math.nan
    high: float = math.nan
    exact: float = math.nan


def bounded(found: Estimate, within: tuple[float, float]) -> Estimate:
    """Cut the ends of an interval to the values that the number can have.

    Student's interval of few seeds may go beyond them. The true value never does, so the cut
    interval covers it exactly as often (docs/statistics.md).

    >>> bounded(Estimate(0.99, 0.97, 1.01), (0.0, 1.0))[:3]
    (0.99, 0.97, 1.0)
    """
    low, high = (min(max(end, within[0]), within[1]) for end in (found.low, found.high))
    return found if math.isnan(found.low) else found._replace(low=low, high=high)


# From values to numbers


def interval(values: np.ndarray, *, confidence: float = 0.95) -> tuple[float, float]:
    """Return Student's t-interval of the mean of independent values; NaN for fewer than two.

    >>> interval(np.array([1.0, 1.0, 1.0]))
    (1.0, 1.0)
    """
    return _first(by_row.interval(values[np.newaxis], confidence=confidence))


def over_seeds(values: np.ndarray, *, within: tuple[float, float] = ANY) -> Estimate:
    """Return the mean of independent values with its `bounded` t-interval."""
    return bounded(Estimate(float(np.mean(values)), *interval(values)), within)


def median_interval(values: np.ndarray, *, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of the median, between two of the independent values; NaN for too few.

    The sample's order statistics bound the median whatever the distribution (Thompson 1936), so
    values that are only known to be large may be given as infinity. From six values on, 95 % is
    reached; the interval covers at least `confidence`.

    >>> median_interval(np.array([3.0, 1.0, 2.0, np.inf, 5.0, 4.0]))
    (1.0, inf)
    """
    return _first(by_row.median_interval(values[np.newaxis], confidence=confidence))


def typical(values: np.ndarray) -> float:
    """Return the median of values; for an even number, the geometric mean of the middle two.

    So the median of ratios of two groups is one over the median of the inverse ratios. The middle
    two of values that spread over decades may differ by a factor. Where one of them is not
    positive their arithmetic mean is taken.

    >>> typical(np.array([1.0, 100.0, 5.0, 4.0])) == 20**0.5
    True
    """
    return float(by_row.typical(values[np.newaxis])[0])


def typical_ratio(ratios: np.ndarray) -> Estimate:
    """Return the Hodges-Lehmann estimate of ratios by seed, with its 95 % interval.

    The estimate is the median of the geometric means of all pairs of ratios, each ratio paired with
    itself too. Its interval lies between two of these means and inverts Wilcoxon's signed rank
    test (Hollander, Wolfe & Chicken 2013, section 3.2), so it covers for logarithms that are
    symmetric about their centre, whatever their spread. A ratio may be infinite or 0. The interval
    is NaN below six ratios, where 95 % cannot be reached.

    >>> typical_ratio(np.array([1.0, 4.0, 16.0, 64.0, 256.0, np.inf]))[:3]
    (32.0, 1.0, inf)
    """
    with np.errstate(divide="ignore"):
        logs = np.log2(ratios)
    first, second = np.triu_indices(len(logs))
    means = np.sort((logs[first] + logs[second]) / 2)
    centre = float(np.exp2(median(means)))
    # The means left out at either end: the rank sum is that small rarely enough.
    out = int(np.count_nonzero(_rank_sum_distribution(len(logs)) <= 0.025))
    if out == 0:
        return Estimate(centre, np.nan, np.nan)
    return Estimate(centre, float(np.exp2(means[out - 1])), float(np.exp2(means[-out])))


def _rank_sum_distribution(count: int) -> np.ndarray:
    """Return the distribution function of Wilcoxon's signed rank statistic, from 0 on."""
    ways = np.ones(1)
    for rank in range(1, count + 1):
        gap = np.zeros(rank)
        ways = (np.concatenate([ways, gap]) + np.concatenate([gap, ways])) / 2
    return np.cumsum(ways)


def median(values: np.ndarray) -> float:
    """Return the median of values that may be infinite."""
    # Not np.median, which returns NaN for two infinities.
    ordered, half = np.sort(values), len(values) // 2
    middle = ordered[[half if len(values) % 2 else half - 1, half]]
    return float(middle[0] if middle[0] == middle[1] else middle.mean())


def typical_interval(values: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of the median of independent values that are not negative.

    From six values on it is `median_interval`, which covers for any distribution. For two to five
    values it is the t-interval of the logarithms, which covers where these are about symmetric
    (`docs/statistics.md` has the simulated coverage). NaN for one value, and for two to five
    values if one of them is 0, unless all of them are the same.
    """
    return _first(by_row.typical_interval(values[np.newaxis]))


def share_interval(
    values: np.ndarray, *, counted: int, independent: int | None = None
) -> tuple[float, float]:
    """Return the 95 % interval of a share, from the shares counted in independent seeds.

    This is the interval of Korn and Graubard (1998) for shares in clustered samples: Clopper and
    Pearson's, with the number of independent things that would give the variance seen over seeds.
    `counted` is the number of things in one seed. The effective number is between one and
    `counted` a seed, and is lowered by the ratio of the quantiles of Student's t and the normal
    law, because the variance is estimated.

    If the share is 0 or 1 in every seed, there is no variance, and the number is that of
    `independent` things a seed (by default `counted`), lowered in the same way. So "none seen" has
    an upper end above 0: for 100 seeds of 64 rows it is 6e-4, about 3.7 over the number of rows.
    NaN for one seed.

    >>> low, high = share_interval(np.zeros(100), counted=64)
    >>> low, round(high, 5)
    (0.0, 0.00059)
    """
    things, count = np.array([independent or counted], np.float64), np.array([counted])
    return _first(by_row.share_interval(values[np.newaxis], counted=count, independent=things))


def reciprocal_interval(values: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of the mean of positive, skewed values, from that of its reciprocal.

    The reciprocal of the share of the largest rows is the number of such shares that would hold
    everything. It scatters more symmetrically than the share, so that Student's t-interval of it
    (delta method) covers more often. The upper end may be infinite. NaN for one value.

    >>> reciprocal_interval(np.array([0.1, 0.1]))
    (0.1, 0.1)
    """
    return _first(by_row.reciprocal_interval(values[np.newaxis]))


def exact_share(events: int, count: int) -> Estimate:
    """Return the share of independent things that an event happened to, with its 95 % interval.

    Clopper and Pearson 1934: it covers the share at least as often as it says.

    >>> round(exact_share(0, 10).high, 6)
    0.308497
    """
    others = count - events
    low = float(betaincinv(events, others + 1, 0.025)) if events else 0.0
    high = float(betaincinv(events + 1, others, 0.975)) if others else 1.0
    return Estimate(events / count, low, high)


def paired_ratio(over: np.ndarray, under: np.ndarray, *, pool: str = "mean") -> Estimate:
    """Return the ratio of two scale rules that share their draws, with a paired 95 % interval.

    `over` and `under` are not negative and in the order of the seeds. With `pool="median"` the
    result is the median of the ratios of the seeds. Otherwise it is the ratio of the means, or
    with `pool="rms"` of the quadratic means, with a t-interval on its logarithm (delta method):
    its spread is that of the difference of the two relative deviations in each seed.

    Raises MissingError where the ratio is undefined. The interval is NaN for one seed, and for a
    ratio of 0.
    """
    if pool == "median":
        if not np.all(under > 0):
            raise MissingError("the ratio of a seed is undefined")
        with np.errstate(over="ignore"):
            ratios = over / under
        return Estimate(typical(ratios), *typical_interval(ratios))
    power = 2 if pool == "rms" else 1
    (first, unit), (second, other) = (by_row.near_one(x[np.newaxis]) for x in (over, under))
    first, second = first[0] ** power, second[0] ** power
    means = float(np.mean(first)), float(np.mean(second))
    if not means[1] > 0 or np.any(over < 0) or np.any(under < 0):
        raise MissingError("the ratio is undefined")
    ratio = float(np.ldexp((means[0] / means[1]) ** (1 / power), unit[0] - other[0]))
    if not ratio > 0:
        return Estimate(ratio)
    low, high = _first(by_row.around_one((first / means[0] - second / means[1])[np.newaxis]))
    return Estimate(ratio, ratio * low ** (1 / power), ratio * high ** (1 / power))


def _first(ends: by_row.Ends) -> tuple[float, float]:
    low, high = ends
    return float(low[0]), float(high[0])


def statistics(
    values: np.ndarray,
    *,
    pool: str = "mean",
    exact: float = np.nan,
    counted: int = 0,
    independent: int | None = None,
    skewed: bool = False,
) -> dict[str, float]:
    """Return the statistics of one metric over seeds.

    `mean` and its interval depend on `pool`. With `mean` they are the arithmetic mean and
    Student's t-interval; for a share that is a count over `counted` things, `share_interval`, for
    a `skewed` one `reciprocal_interval`.
    With `rms` they are the quadratic mean and the t-interval of the logarithm of the mean square,
    and z compares squares. With `median` they are `typical` and `typical_interval`, and there is
    no z.
    """
    found = by_row.statistics(
        np.asarray(values, np.float64)[np.newaxis],
        pool=pool,
        exact=np.array([exact], np.float64),
        counted=np.array([counted]) if counted else None,
        independent=np.array([independent], np.float64) if independent else None,
        skewed=skewed,
    )
    return {name: float(one[0]) for name, one in found.items()} | {"n_seeds": len(values)}


def evenly_spaced(values: Sequence[T], count: int) -> list[T]:
    """Return at most `count` of the values, evenly spaced by rank, including both ends.

    >>> evenly_spaced([1, 2, 4, 8, 16, 32, 64], 4)
    [1, 4, 16, 64]
    """
    places = np.linspace(0, len(values) - 1, min(count, len(values)))
    return [values[round(place)] for place in places.tolist()]
