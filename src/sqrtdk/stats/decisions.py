"""Decide from intervals: each rule returns True, False, or None if the interval leaves it open.

A number without an interval, such as that of one seed, decides nothing. With 95 % intervals the
error rates are these (simulated in docs/verdicts.md):

- `beyond` returns a wrong True, or a wrong False, in about 2.5 % of runs, each at the level itself.
  The rate is higher for a skewed metric of few seeds, whose interval covers less than 95 %.
- `within` is an equivalence test (two one-sided tests, Schuirmann 1987): True only if the whole
  interval is inside, False only if it is wholly outside; about 2.5 % each.
- `steady` applies `within`'s logic to a range over d_k. A wrong True is as rare. The lower end of
  the range holds for all d_k together, so False is wrong in at most about 5 %.
- `all_known` is an intersection-union test (Berger 1982): all parts must hold, so a wrong True is
  no likelier than that of the part that fails. A wrong False is at most as likely as a wrong False
  of any part, 2.5 % times the number of parts that are close to their level.
"""

import math
from collections.abc import Iterable

from sqrtdk.stats.curves import Curve, relative_range
from sqrtdk.stats.intervals import Estimate, MissingError

MIN_DECISIVE_D_K = 1024
"""The d_k by which an effect of large d_k must show; a grid that ends below cannot refute it."""

MIN_SIZES, MIN_SPAN = 4, 64
"""The minimum number of d_k, and of the largest over the smallest, for a rule over all d_k."""


def beyond(value: Estimate, level: float, *, above: bool) -> bool | None:
    """Return whether a number's whole interval is above (or below) a level.

    >>> beyond(Estimate(2.0, 1.5, 2.5), 1.0, above=True), beyond(Estimate(2.0), 1.0, above=True)
    (True, None)
    """
    if math.isnan(value.low) or math.isnan(value.high):
        return None
    if value.low > level or value.high < level:
        return (value.low > level) == above
    return None if value.low < value.high else False


def stepwise(value: Estimate, step: float) -> Estimate:
    """Return a number that each seed knows to a step; equal seeds bound it by one step each way.

    A share of seven runs, or a window of rates of a grid, can be the same in all of a few seeds by
    chance. Student's interval then has no width, and would decide whatever the level.

    >>> stepwise(Estimate(0.5, 0.5, 0.5), 0.25)[:3], stepwise(Estimate(0.5, 0.4, 0.6), 0.25)[:3]
    ((0.5, 0.25, 0.75), (0.5, 0.4, 0.6))
    """
    # Equal values have a mean that may be off by rounding.
    if not value.high - value.low <= 1e-9 * step:
        return value
    return value._replace(low=value.mean - step, high=value.mean + step)


def within(value: Estimate, low: float, high: float) -> bool | None:
    """Return whether a number's whole interval is between two margins.

    >>> within(Estimate(0.5, 0.48, 0.52), 0.45, 0.55), within(Estimate(0.5, 0.4, 0.6), 0.45, 0.55)
    (True, None)
    """
    if math.isnan(value.low) or math.isnan(value.high):
        return None
    if low < value.low and value.high < high:
        return True
    return False if value.high <= low or value.low >= high else None


def steady(curve: Curve, margin: float) -> bool | None:
    """Return whether the range of a curve is less than a share of its largest value.

    The lower end of the range's interval holds for all pairs of values together, because the
    extremes are chosen by their size (see `curves.relative_range`).
    """
    return beyond(relative_range(curve), margin, above=False)


def all_known(states: Iterable[bool | None]) -> bool | None:
    """Return True if all hold, False if one surely fails, None if one is open.

    >>> all_known([True, None]), all_known([None, False])
    (None, False)
    """
    found = set(states)
    return False if False in found else None if None in found else True


def any_known(states: Iterable[bool | None]) -> bool | None:
    """Return True if one surely holds, False if none does, None if one is open."""
    found = set(states)
    return True if True in found else None if None in found else False


def is_far(curve: Curve) -> bool:
    """Return whether the grid of a curve is large enough for a rule over all d_k."""
    return len(curve) >= MIN_SIZES and max(curve) >= max(MIN_DECISIVE_D_K, MIN_SPAN * min(curve))


def need_far(curve: Curve) -> None:
    """Raise MissingError if a grid is too small for a rule over all d_k."""
    if not is_far(curve):
        raise MissingError(
            f"a rule over all d_k needs {MIN_SIZES} values of it or more, up to {MIN_DECISIVE_D_K} "
            f"or more and over a factor of {MIN_SPAN}; the run has {len(curve)}, from {min(curve)} "
            f"to {max(curve)}"
        )


def need_large(curve: Curve, what: str) -> None:
    """Raise MissingError if a grid ends too early to refute what it does not show."""
    if max(curve) < MIN_DECISIVE_D_K:
        raise MissingError(f"{what} at d_k = {max(curve)}, the largest; larger d_k may differ")


def up_to(curve: Curve) -> str:
    """Return how far a finding was tested, in words; empty if that is far enough.

    >>> up_to({16: Estimate(1.0), 64: Estimate(1.0)})
    'tried up to d_k = 64 only'
    """
    return f"tried up to d_k = {max(curve)} only" if max(curve) < MIN_DECISIVE_D_K else ""
