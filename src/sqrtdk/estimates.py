"""Measured numbers with their intervals: from values over seeds, in words, as curves over d_k.

Nothing here knows a table or a claim.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.optimize import brentq
from scipy.special import bdtr, betaincinv, ndtri, stdtrit

T = TypeVar("T")


class MissingError(Exception):
    """The run lacks what a number needs; the message is the reason in words."""


class Estimate(NamedTuple):
    """A number with its interval; NaN ends where there is none, NaN `exact` without theory."""

    mean: float
    low: float = math.nan
    high: float = math.nan
    exact: float = math.nan


Curve = dict[int, Estimate]
"""A metric by d_k, in rising order of d_k."""


# From values to numbers


def interval(values: np.ndarray, *, confidence: float = 0.95) -> tuple[float, float]:
    """Student's t-interval of the mean of independent values; NaN for fewer than two.

    >>> interval(np.array([1.0, 1.0, 1.0]))
    (1.0, 1.0)
    """
    count = len(values)
    if count < 2:
        return np.nan, np.nan
    mean = float(np.mean(values))
    half = float(stdtrit(count - 1, 0.5 + confidence / 2) * np.std(values, ddof=1) / count**0.5)
    return mean - half, mean + half


def median_interval(values: np.ndarray, *, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of the median of independent values, between two of them; NaN for too few.

    The sample's order statistics bound the median whatever the distribution (Thompson 1936), so
    values that are only known to be large may stand as infinity. From six values on, 95 % is
    reached; the interval covers at least `confidence`.

    >>> median_interval(np.array([3.0, 1.0, 2.0, np.inf, 5.0, 4.0]))
    (1.0, inf)
    """
    count = len(values)
    # So many values may be left out at either end: the median is beyond them too rarely.
    beyond = bdtr(np.arange(count // 2), count, 0.5)
    out = int(np.count_nonzero(beyond <= (1 - confidence) / 2))
    if out == 0:
        return np.nan, np.nan
    ordered = np.sort(values)
    return float(ordered[out - 1]), float(ordered[-out])


def typical(values: np.ndarray) -> float:
    """Return the median of values; of an even number, the geometric mean of the middle two.

    So the median of ratios of two groups is one over the median of the inverse ratios. The middle
    two of values that spread over decades may differ by a factor. Where one of them is not
    positive their arithmetic mean is taken.

    >>> typical(np.array([1.0, 100.0, 5.0, 4.0])) == 20**0.5
    True
    """
    ordered = np.sort(values)
    low, high = (float(ordered[i]) for i in ((len(ordered) - 1) // 2, len(ordered) // 2))
    if low == high or not 0 < low < high < math.inf:
        return low if low == high else (low + high) / 2
    # The product of the roots neither underflows nor overflows.
    return math.sqrt(low) * math.sqrt(high)


def typical_interval(values: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of the median of independent values that are not negative.

    From six values on it is `median_interval`, which covers whatever the law. For two to five
    values it is the t-interval of the logarithms, which covers where these are about symmetric
    (`docs/statistics.md` has the simulated coverage). NaN for one value, and for two to five
    values if one of them is 0, unless all of them are the same.
    """
    if len(values) > 1 and np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    low, high = median_interval(values)
    if math.isnan(low) and np.all((values > 0) & (values < np.inf)):
        with np.errstate(over="ignore"):
            low, high = np.exp(interval(np.log(values))).tolist()
    return low, high


def share_interval(
    values: np.ndarray, *, counted: int, independent: int | None = None
) -> tuple[float, float]:
    """Return the 95 % interval of a share, from the shares counted in independent seeds.

    This is the interval of Korn and Graubard (1998) for shares in clustered samples: Clopper and
    Pearson's, with the number of independent things that would give the variance seen over seeds.
    `counted` is the number of things in one seed. The effective number is between one and
    `counted` a seed, and is lowered by the ratio of the quantiles of Student's t and the normal
    law, because the variance is estimated.

    Where no seed or every seed has all of it, there is no variance, and the number is that of
    `independent` things a seed (by default `counted`), lowered in the same way. So "none seen" has
    an upper end above 0: for 100 seeds of 64 rows it is 6e-4, about 3.7 over the number of rows.
    NaN for one seed.

    >>> low, high = share_interval(np.zeros(100), counted=64)
    >>> low, round(high, 5)
    (0.0, 0.00059)
    """
    seeds, mean = len(values), float(np.mean(values))
    if seeds < 2:
        return np.nan, np.nan
    number = seeds * counted
    if 0 < mean < 1:
        error = float(np.var(values, ddof=1)) / seeds
        effective = mean * (1 - mean) / error if error > 0 else float(number)
    else:
        effective = float(seeds * (independent or counted))
    effective *= float(ndtri(0.975) / stdtrit(seeds - 1, 0.975)) ** 2
    effective = min(max(effective, seeds), number)
    events, others = mean * effective, (1 - mean) * effective
    low = float(betaincinv(events, others + 1, 0.025)) if mean > 0 else 0.0
    high = float(betaincinv(events + 1, others, 0.975)) if mean < 1 else 1.0
    return low, high


def paired_ratio(over: np.ndarray, under: np.ndarray, *, pool: str = "mean") -> Estimate:
    """Return the ratio of two arms that share their draws, with a paired 95 % interval.

    `over` and `under` are not negative and in the order of the seeds. With `pool="median"` it is
    the median of the ratios of the seeds. Else it is the ratio of the means, or with `pool="rms"`
    of the quadratic means, with a t-interval on its logarithm (delta method): what varies is the
    difference of the two arms' relative deviations in each seed.

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
    (first, unit), (second, other) = (_near_one(x) for x in (over, under))
    first, second = first**power, second**power
    means = float(np.mean(first)), float(np.mean(second))
    if not means[1] > 0 or np.any(over < 0) or np.any(under < 0):
        raise MissingError("the ratio is undefined")
    ratio = float(np.ldexp((means[0] / means[1]) ** (1 / power), unit - other))
    if not ratio > 0:
        return Estimate(ratio)
    low, high = _around_one(first / means[0] - second / means[1])
    return Estimate(ratio, ratio * low ** (1 / power), ratio * high ** (1 / power))


def _around_one(deviations: np.ndarray) -> tuple[float, float]:
    """Return the factors to the ends of the t-interval of ln mean; NaN for one seed.

    `deviations` are relative to the mean; a constant added to them changes nothing.
    """
    count = len(deviations)
    if count < 2:
        return np.nan, np.nan
    error = float(np.std(deviations, ddof=1)) / count**0.5
    half = float(stdtrit(count - 1, 0.975)) * error
    return math.exp(-half), math.exp(half)


def _near_one(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return values over a power of two that is about the largest, and its exponent.

    Squares of values below 1e-154 would underflow. A power of two changes no digit.
    """
    _, unit = np.frexp(np.max(np.abs(values)))
    return np.ldexp(values, -unit), int(unit)


def statistics(
    values: np.ndarray,
    *,
    pool: str = "mean",
    exact: float = np.nan,
    counted: int = 0,
    independent: int | None = None,
) -> dict[str, float]:
    """Return the statistics of one metric over seeds.

    `mean` and its interval depend on `pool`. With `mean` they are the arithmetic mean and
    Student's t-interval; for a share that is a count over `counted` things, `share_interval`.
    With `rms` they are the quadratic mean and the t-interval of the logarithm of the mean square,
    and z compares squares. With `median` they are `typical` and `typical_interval`, and there is
    no z.
    """
    near, unit = _near_one(values)
    with np.errstate(over="ignore"):
        target = float(np.ldexp(exact, -unit))
    power = 2 if pool == "rms" else 1
    pooled = near**power
    count, mean = len(values), float(np.mean(pooled))
    error = float(np.std(pooled, ddof=1)) / count**0.5 if count > 1 else np.nan
    found = {
        "mean": mean ** (1 / power),
        "sd": float(np.std(near, ddof=1)) if count > 1 else np.nan,
        "median": float(np.median(near)),
    }
    found = {name: float(np.ldexp(number, unit)) for name, number in found.items()}
    if pool == "median":
        found["mean"] = typical(values)
        low, high = typical_interval(values)
    elif pool == "rms":
        ends = _around_one(pooled / mean if mean > 0 else pooled)
        low, high = (found["mean"] * end**0.5 for end in ends)
    elif counted:
        low, high = share_interval(values, counted=counted, independent=independent)
    else:
        low, high = (float(np.ldexp(end, unit)) for end in interval(near))
    return {
        "n_seeds": count,
        **found,
        "ci_low": low,
        "ci_high": high,
        "exact": exact,
        # Where nothing varies over seeds there is no standard error to measure in.
        "z": (mean - target**power) / error if error > 0 and pool != "median" else np.nan,
    }


def spread(values: Sequence[T], count: int) -> list[T]:
    """At most `count` of the values, evenly spaced by rank, both ends among them.

    >>> spread([1, 2, 4, 8, 16, 32, 64], 4)
    [1, 4, 16, 64]
    """
    places = np.linspace(0, len(values) - 1, min(count, len(values)))
    return [values[round(place)] for place in places.tolist()]


# In words


_PLAIN = (1e-3, 1e6)
"""Between these a number is written out; outside of them with a power of ten."""


def number(value: float, digits: int = 3) -> str:
    """A number with so many significant digits.

    >>> number(0.0123456), number(1234.5), number(0.0000123), number(0.0)
    ('0.0123', '1234', '1.23e-5', '0')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "undefined"
    if _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return f"{value:.{max(0, digits - 1 - _exponent(value))}f}"
    return _scientific(value, digits)


def estimate(value: Estimate, unit: str = "") -> str:
    """A number as precise as its interval, with the interval and the exact value.

    The mean has at least two significant digits, and the interval the same decimals.

    >>> estimate(Estimate(0.5843, 0.571, 0.598)), estimate(Estimate(0.5843))
    ('0.58 (0.57 to 0.60)', '0.584')
    >>> estimate(Estimate(82.39, 82.13, 82.65, exact=82.41), " %")
    '82.4 % (82.1 to 82.7, exact 82.4)'
    """
    mean, low, high, exact = value
    half = (high - low) / 2 if math.isfinite(high) else mean - low
    if not half > 0:
        tail = "" if math.isnan(exact) else f" (exact {number(exact)})"
        return f"{number(mean)}{unit}{tail}"
    reference = abs(mean) or half
    plain, size = _PLAIN[0] <= reference < _PLAIN[1], _exponent(reference)
    decimals = max(0, min(max(-_exponent(half), 1 - size), 5 - size))

    def one(x: float) -> str:
        if math.isinf(x):
            return "unbounded"
        return f"{x:.{decimals}f}" if plain else _scientific(x, 2)

    tail = "" if math.isnan(exact) else f", exact {one(exact)}"
    return f"{one(mean)}{unit} ({one(low)} to {one(high)}{tail})"


def _exponent(value: float) -> int:
    return math.floor(math.log10(abs(value)))


def _scientific(value: float, digits: int) -> str:
    if value == 0 or not math.isfinite(value):
        return number(value)
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def percent(value: Estimate) -> str:
    """A share as a percentage.

    >>> percent(Estimate(0.8239, 0.8213, 0.8265))
    '82.4 % (82.1 to 82.7)'
    """
    return estimate(Estimate(*(100 * x for x in value)), " %")


# Curves


def last(curve: Curve) -> tuple[int, Estimate]:
    """The point at the largest d_k, with its d_k."""
    return next(reversed(curve.items()))


def ratio(over: Curve, under: Curve) -> Curve:
    """One curve over another where both have a point.

    The interval's ends are from both intervals, so it is wider than 95 %. Where the lower one
    reaches 0 it has no upper end.
    """

    def high(a: Estimate, b: Estimate) -> float:
        return math.inf if b.low <= 0 else a.high / b.low

    return {
        d_k: Estimate(a.mean / b.mean, a.low / b.high, high(a, b))
        for d_k, a in over.items()
        if (b := under.get(d_k)) is not None and b.mean > 0
    }


def past(value: Estimate, level: float, *, above: bool) -> bool | None:
    """Whether a number is above (or below) a level with its whole interval; None if across."""
    low, high = (value.mean, value.mean) if math.isnan(value.low) else (value.low, value.high)
    if low > level or high < level:
        return (low > level) == above
    return None if low < high else False


def crossing(curve: Curve, level: float) -> Estimate | None:
    """Return the last d_k at which the curve crosses the level, or None.

    Between two values of the grid it is interpolated by a monotone cubic of ln d_k (Fritsch and
    Carlson 1980), on the scale on which such curves are smooth: the logit for shares, the
    logarithm for other numbers that are not negative.

    The interval is where the curves through the lower and the upper ends cross, each widened by
    what interpolation may be wrong (see `_Crossing`). It goes down to 1 where a curve of ends is
    past the level at every d_k of the grid, and is unbounded above where one is not past it at the
    last. NaN for a curve without intervals.

    >>> curve = {4: Estimate(0.75), 16: Estimate(0.25)}
    >>> round(crossing(curve, 0.5).mean, 6)
    8.0
    """
    means = {d_k: point.mean for d_k, point in curve.items()}
    scale = _scale(means.values(), level)
    found = _crossing(means, level, scale)
    if found is None:
        return None
    ends_below = list(means.values())[-1] < level
    low, high = found.low, found.high
    for end in ("low", "high"):
        ends = {d_k: getattr(point, end) for d_k, point in curve.items()}
        if any(map(math.isnan, ends.values())):
            return Estimate(found.d_k)
        values = list(ends.values())
        other = _crossing(ends, level, scale)
        # Not past the level at the end of the grid, or past it at every point.
        if values[-1] == level or (values[-1] < level) != ends_below:
            high = math.inf
        elif other is None:
            low = 1.0
        else:
            low, high = min(low, other.low), max(high, other.high)
    return Estimate(found.d_k, low, high)


class _Crossing(NamedTuple):
    """Where a curve crosses, and between which d_k an interpolation may put it.

    The bounds are those of the bracket in the grid where it has fewer than four points. Else they
    are as far from `d_k`, in ln d_k, as a straight line or a cubic spline is (the farther one),
    and `_BEND` times the square of the bracket's width. Tried on the exact curves of all metrics
    with theory: no exact crossing is outside for grids of factors 2 and 4.
    """

    d_k: float
    low: float
    high: float


_BEND = 0.02


def _scale(values: Iterable[float], level: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return the scale on which a curve with these values is interpolated."""
    known = [*values, level]
    with_ends = all(0 <= x <= 1 for x in known) and 0 < level < 1
    if with_ends:
        return lambda y: np.log(y) - np.log1p(-y)
    if min(known) >= 0 and level > 0:
        return np.log
    return lambda y: y


def _crossing(
    values: Mapping[int, float], level: float, scale: Callable[[np.ndarray], np.ndarray]
) -> _Crossing | None:
    """Return the last crossing of a curve through these values."""
    sizes, raw = list(values), np.array(list(values.values()))
    places = [
        i
        for i, (a, b) in enumerate(pairwise(raw.tolist()))
        if (a - level) * (b - level) < 0 or a == level != b
    ]
    if not places:
        return None
    at = places[-1]
    bracket = sizes[at], sizes[at + 1]
    if raw[at] == level:
        return _Crossing(*(float(bracket[0]),) * 3)
    x = np.log(sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        y = scale(raw) - scale(np.array(level))
    if not np.isfinite(y[at : at + 2]).all():
        # A share of none or all has no logit: a straight line, anywhere between the two.
        share = (level - raw[at]) / (raw[at + 1] - raw[at])
        return _Crossing(math.exp(x[at] + share * (x[at + 1] - x[at])), *map(float, bracket))
    kept = np.isfinite(y)
    width = float(x[at + 1] - x[at])
    straight = float(x[at] - y[at] * width / (y[at + 1] - y[at]))

    def root(smooth: Callable[[float], Any]) -> float:
        return float(brentq(smooth, x[at], x[at + 1]))

    middle = root(PchipInterpolator(x[kept], y[kept]))
    if np.count_nonzero(kept) < 4:
        return _Crossing(math.exp(middle), *map(float, bracket))
    others = straight, root(CubicSpline(x[kept], y[kept]))
    error = max(abs(middle - other) for other in others) + _BEND * width**2
    return _Crossing(
        math.exp(middle),
        max(bracket[0], math.exp(middle - error)),
        min(bracket[1], math.exp(middle + error)),
    )


def relative_range(curve: Curve) -> Estimate:
    """Largest minus smallest value of a curve that is nowhere negative, over the largest.

    The points are independent, because every d_k has its own draw. So of each pair of points the
    logarithm of the ratio has an interval whose half-width is the root of the sum of the squares
    of theirs. The upper end is the largest of the pairs' upper ends. The lower end is the largest
    of their lower ends, with half-widths for all pairs at once (Šidák 1967), because the pair is
    chosen by its size. Raises MissingError for fewer than two points, or where the curve is zero.

    >>> relative_range({1: Estimate(4.0), 2: Estimate(3.0)}).mean
    0.25
    """
    means, lows, highs = (np.array(x) for x in zip(*(p[:3] for p in curve.values()), strict=True))
    if len(means) < 2:
        raise MissingError("a range over d_k needs two values of it")
    if max(means) <= 0:
        raise MissingError("the curve is zero")
    mean = float(1 - min(means) / max(means))
    if np.isnan(lows).any():
        return Estimate(mean)
    if not min(means) > 0:
        return Estimate(mean, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        level = np.log(means)
        down, up = level - np.log(np.maximum(lows, 0)), np.log(highs) - level
    drop = level[:, np.newaxis] - level
    # A point has no distance to itself, whatever its interval.
    others = ~np.eye(len(means), dtype=bool)
    upper = np.max((drop + np.hypot(up[:, np.newaxis], down))[others])
    pairs = len(means) * (len(means) - 1) / 2
    wider = float(ndtri((1 + 0.95 ** (1 / pairs)) / 2) / ndtri(0.975))
    lower = np.max(drop - wider * np.hypot(down[:, np.newaxis], up))
    return Estimate(mean, float(max(0.0, -np.expm1(-lower))), float(-np.expm1(-upper)))


def slope(curve: Curve) -> Estimate:
    """Least-squares slope of ln mean on ln d_k, each point weighted by the precision of its mean.

    The points are independent, because every d_k has its own draw. Without intervals all weigh
    the same and the slope has none. Raises MissingError where a line is not defined.
    """
    points = {math.log(d_k): point for d_k, point in curve.items() if point.mean > 0}
    if len(points) < 2:
        raise MissingError("a slope needs two values of d_k")
    known = all(0 < point.low < point.high for point in points.values())
    half = {x: math.log(p.high / p.low) / 2 if known else 1.0 for x, p in points.items()}
    weight = {x: half[x] ** -2 for x in points}
    centre = sum(weight[x] * x for x in points) / sum(weight.values())
    size = sum(weight[x] * (x - centre) ** 2 for x in points)
    fitted = sum(weight[x] * (x - centre) * math.log(p.mean) for x, p in points.items()) / size
    return Estimate(fitted, fitted - size**-0.5, fitted + size**-0.5) if known else Estimate(fitted)
