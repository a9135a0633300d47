"""Find where a curve of estimates crosses a level, and its slope."""

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.optimize import brentq
from scipy.special import ndtri

from sqrtdk.stats.intervals import Estimate, MissingError

Curve = dict[int, Estimate]
"""A metric by d_k, in rising order of d_k."""


# Curves


def last(curve: Curve) -> tuple[int, Estimate]:
    """Return the largest d_k of a curve and the point there."""
    return next(reversed(curve.items()))


def ratio(over: Curve, under: Curve) -> Curve:
    """Return the ratio of two curves at the d_k that both have.

    The interval combines the extremes of both intervals, so it is wider than 95 %. If the lower
    end of `under` reaches 0, the ratio has no upper end.
    """

    def high(a: Estimate, b: Estimate) -> float:
        return math.inf if b.low <= 0 else a.high / b.low

    return {
        d_k: Estimate(a.mean / b.mean, a.low / b.high, high(a, b))
        for d_k, a in over.items()
        if (b := under.get(d_k)) is not None and b.mean > 0
    }


def is_beyond(value: Estimate, level: float, *, above: bool) -> bool | None:
    """Return whether the whole interval is above (or below) a level; None if it crosses it."""
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
    the possible error of interpolation (see `_Crossing`). It goes down to 1 if a curve of ends is
    past the level at every d_k of the grid, and is unbounded above if one is not past it at the
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
    """The crossing of a curve, and the d_k between which an interpolation may put it.

    The bounds are those of the bracket in the grid if the grid has fewer than four points.
    Otherwise their distance from `d_k`, in ln d_k, is that of a straight line or a cubic spline
    (the larger one), plus `_BEND` times the square of the bracket's width. Tested on the exact
    curves of all metrics with theory: no exact crossing is outside for grids of factors 2 and 4.
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
        # Shares of 0 and 1 have no logit: use a straight line, anywhere between the two.
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
    """Return the largest minus the smallest value of a nonnegative curve, over the largest.

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
    # A point has distance 0 to itself, whatever its interval.
    others = ~np.eye(len(means), dtype=bool)
    upper = np.max((drop + np.hypot(up[:, np.newaxis], down))[others])
    pairs = len(means) * (len(means) - 1) / 2
    wider = float(ndtri((1 + 0.95 ** (1 / pairs)) / 2) / ndtri(0.975))
    lower = np.max(drop - wider * np.hypot(down[:, np.newaxis], up))
    return Estimate(mean, float(max(0.0, -np.expm1(-lower))), float(-np.expm1(-upper)))


def slope(curve: Curve) -> Estimate:
    """Return the least-squares slope of ln mean on ln d_k, each point weighted by its precision.

    The points are independent, because every d_k has its own draw. Without intervals all weigh
    the same and the slope has none. Raises MissingError where a line is not defined.
    """
    points = {math.log(d_k): point for d_k, point in curve.items() if point.mean > 0}
    if len(points) < 2:
        raise MissingError("a slope needs two values of d_k")
    known = all(0 < point.low < point.high for point in points.values())
    half = [math.log(p.high / p.low) / 2 if known else 1.0 for p in points.values()]
    means = [math.log(p.mean) for p in points.values()]
    (fitted, _), covariance = np.polyfit(
        list(points), means, 1, w=1 / np.array(half), cov="unscaled"
    )
    # The half-widths of 95 % intervals as weights make this the half-width of the slope's.
    mean, error = float(fitted), float(covariance[0, 0]) ** 0.5
    return Estimate(mean, mean - error, mean + error) if known else Estimate(mean)
