"""Measured numbers with their intervals: from values over seeds, in words, as curves over d_k.

Nothing here knows a table or a claim.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import bdtr, stdtrit

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
    out = sum(bool(bdtr(i, count, 0.5) <= (1 - confidence) / 2) for i in range(count // 2))
    if out == 0:
        return np.nan, np.nan
    ordered = np.sort(values)
    return float(ordered[out - 1]), float(ordered[-out])


def statistics(
    values: np.ndarray, *, pool: str = "mean", exact: float = np.nan
) -> dict[str, float]:
    """The statistics of one metric over seeds.

    With `pool="rms"` the mean square is what has an expectation: mean and interval are those of
    the squares, brought back by the square root (an end below 0 becomes 0), and z compares
    squares.
    """
    # Squares of values below 1e-154 underflow, so all is computed near 1. The unit is a power of
    # two, which changes no digit of what needs none.
    _, unit = np.frexp(np.max(np.abs(values)))
    near = np.ldexp(values, -unit)
    with np.errstate(over="ignore"):
        target = float(np.ldexp(exact, -unit))
    power = 2 if pool == "rms" else 1
    pooled = near**power
    count, mean = len(values), float(np.mean(pooled))
    error = float(np.std(pooled, ddof=1)) / count**0.5 if count > 1 else np.nan
    ends = (max(x, 0.0) if pool == "rms" else x for x in interval(pooled))
    low, high = (float(x ** (1 / power)) for x in ends)
    found = {
        "mean": mean ** (1 / power),
        "sd": float(np.std(near, ddof=1)) if count > 1 else np.nan,
        "median": float(np.median(near)),
        "ci_low": low,
        "ci_high": high,
    }
    return {
        "n_seeds": count,
        **{name: float(np.ldexp(number, unit)) for name, number in found.items()},
        "exact": exact,
        # Where nothing varies over seeds there is no standard error to measure in.
        "z": (mean - target**power) / error if error > 0 else np.nan,
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
    """The last d_k at which the curve crosses the level, or None.

    Linear in ln d_k between two values of the grid. The interval is where the curves through the
    lower and the upper ends cross.

    >>> curve = {4: Estimate(0.75), 16: Estimate(0.25)}
    >>> round(crossing(curve, 0.5).mean, 6)
    8.0
    """
    found = [_crossing({d_k: point[i] for d_k, point in curve.items()}, level) for i in range(3)]
    if found[0] is None:
        return None
    ends = sorted(math.nan if x is None else x for x in found[1:])
    return Estimate(found[0], *(ends if all(map(math.isfinite, ends)) else ()))


def _crossing(values: Mapping[int, float], level: float) -> float | None:
    result = None
    for (d_a, a), (d_b, b) in pairwise(values.items()):
        if (a - level) * (b - level) < 0 or a == level != b:
            share = (level - a) / (b - a)
            result = math.exp(math.log(d_a) + share * math.log(d_b / d_a))
    return result


def relative_range(curve: Curve) -> Estimate:
    """Largest minus smallest value of a curve that is nowhere negative, over the largest.

    The interval's ends are from all intervals, so it is wider than 95 %. Raises MissingError for
    fewer than two points, or where the curve is zero.

    >>> relative_range({1: Estimate(4.0), 2: Estimate(3.0)}).mean
    0.25
    """
    means, lows, highs = zip(*(point[:3] for point in curve.values()), strict=True)
    if len(means) < 2:
        raise MissingError("a range over d_k needs two values of it")
    if max(means) <= 0:
        raise MissingError("the curve is zero")
    mean = 1 - min(means) / max(means)
    if any(map(math.isnan, lows)):
        return Estimate(mean)
    low = 1 - min(highs) / max(lows) if max(lows) > 0 else 0.0
    return Estimate(mean, max(low, 0.0), 1 - max(min(lows), 0.0) / max(highs))


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
