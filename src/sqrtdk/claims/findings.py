"""Define the evidence and the findings of claims, thresholds, and helpers for judges."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import pandas as pd

from sqrtdk.schema import Settings
from sqrtdk.stats import decisions
from sqrtdk.stats.curves import Curve, crossing, last, relative_range
from sqrtdk.stats.decisions import (
    MIN_DECISIVE_D_K,
    all_known,
    any_known,
    beyond,
    need_far,
    need_large,
    steady,
    up_to,
)
from sqrtdk.stats.intervals import Estimate, MissingError, evenly_spaced
from sqrtdk.stats.series import Series, WholeTable
from sqrtdk.stats.wording import format_estimate, format_number
from sqrtdk.theory import thresholds

CHAPTER_D_K = 64
"""The d_k that the chapter names, and the usual size of an attention head."""

WHOLE = 24
"""The most series that a claim's numbers and conditions list one by one, so that none is hidden."""

MAX_SERIES = 4
"""Series written out in a claim's text; a large grid has hundreds. The verdict is of all."""

SLOPE_TOLERANCE, ONE_HOT, STABLE, FACTOR = 0.05, 0.9, 0.10, 2

SELECTS = 0.5
"""A weight above this is more than that of all other keys together."""

LOSS = 0.5
"""Less than this share of the value with scaling counts as a great deal less."""

ROUNDING = 16
"""Rounding of a sum of n_k weights stays below this many times n_k eps: each of its n_k additions
rounds by at most eps/2, and the weights and values carry a few eps of their own."""


SMALL_GRID = (
    f"If the run's largest d_k is below {MIN_DECISIVE_D_K}, the verdict is never false, and true "
    "only with a condition."
)

END = f"at the run's largest d_k. {SMALL_GRID}"

LATE = f"There is also a condition if this starts only above d_k = {CHAPTER_D_K}."

FAR = (
    f"needs at least {decisions.MIN_SIZES} values of d_k that span a factor of "
    f"{decisions.MIN_SPAN} and end at {MIN_DECISIVE_D_K} or more"
)
"""Sentences that the rules of several claims have."""


class Evidence(Protocol):
    """The evidence for a claim, such as a `Series` or a `WholeTable`."""

    @property
    def label(self) -> str:
        """Return the name of this part of the evidence; empty if there is only one."""

    @property
    def unrelated(self) -> bool:
        """Return whether it is about unrelated queries and keys."""


class Finding(NamedTuple):
    """The result of judging one part of the evidence.

    `holds` is None if the intervals are too wide. `distance` is how far the decisive `value` is
    from another verdict.
    """

    holds: bool | None
    number: str
    answer: str
    quantity: str
    value: Estimate
    distance: float
    condition: str = ""


def abbreviate(texts: list[str], what: str, whole: int = MAX_SERIES) -> list[str]:
    """Return up to `whole` texts, or `MAX_SERIES` of more, evenly spaced, and how many are left.

    >>> abbreviate(list("abcdef"), "letters"), abbreviate(list("abcdef"), "letters", whole=6)
    (['a', 'c', 'd', 'f', '2 more letters'], ['a', 'b', 'c', 'd', 'e', 'f'])
    """
    if len(texts) <= whole:
        return texts
    return [*evenly_spaced(texts, MAX_SERIES), f"{len(texts) - MAX_SERIES} more {what}"]


def at_head(curve: Curve) -> tuple[int, Estimate]:
    """Return the point at the chapter's d_k, or the last one if the grid does not have it."""
    return (CHAPTER_D_K, curve[CHAPTER_D_K]) if CHAPTER_D_K in curve else last(curve)


def join(*conditions: str) -> str:
    """Join the conditions that are not empty."""
    return "; ".join(filter(None, conditions))


def onset_of(
    series: Series, curve: Curve, level: float, exact: Callable[[int], float] | None
) -> Estimate | None:
    """Return `crossing` of a curve of the series, with the exact d_k beside if theory has it.

    `exact` returns that d_k for n_k unrelated normal keys.
    """
    found = crossing(curve, level)
    known = series.exact and not any(math.isnan(point.exact) for point in curve.values())
    if found is None or exact is None or not known:
        return found
    return found._replace(exact=exact(series.n_k))


def reaches(
    series: Series,
    curve: Curve,
    level: float,
    *,
    above: bool,
    what: str,
    exact: Callable[[int], float] | None = None,
) -> tuple[bool | None, Estimate | None, str]:
    """Return whether the curve ends past the level, the d_k where it crosses, and the condition.

    `exact` is that of `onset_of`; each text that names the crossing has it beside.
    Raises MissingError if it does not, but the grid ends too early to refute it.
    """
    _, end = last(curve)
    holds = beyond(end, level, above=above)
    if holds is False:
        need_large(curve, f"{what} is {format_number(end.mean)}")
    onset = onset_of(series, curve, level, exact) if holds else None
    since = ""
    if min(curve) > FACTOR * CHAPTER_D_K:
        since = f"tried from d_k = {min(curve)} on only"
    elif onset and not _early(curve, level, above=above):
        since = f"from d_k ≈ {format_estimate(onset)} on"
    return holds, onset, join(since, up_to(curve))


def _early(curve: Curve, level: float, *, above: bool) -> bool:
    """Return whether the curve is surely past the level at every d_k of 64 or more.

    If the intervals leave that open it is not: more seeds may only remove a condition.
    """
    return all(beyond(x, level, above=above) for d_k, x in curve.items() if d_k >= CHAPTER_D_K)


def beginning(onset: Estimate | None, curve: Curve) -> str:
    """Say from which d_k on a statement holds."""
    if onset is not None and onset.mean == min(curve):
        return f"above d_k = {min(curve)}"
    return (
        f"at every d_k from {min(curve)} on"
        if onset is None
        else f"from d_k ≈ {format_estimate(onset)} on"
    )


def steadiness(curve: Curve) -> tuple[Estimate, bool | None]:
    """Return the relative range over d_k, and whether it is below `STABLE`.

    Raises MissingError if it is, but the grid is too small for a rule over all d_k.
    """
    moved = relative_range(curve)
    holds = steady(curve, STABLE)
    if holds is not False:
        need_far(curve)
    return moved, holds


def half_gone(series: Series, curve: Curve) -> Estimate | None:
    """Return the d_k where half of the possible entropy is lost, if the curve goes there."""
    return onset_of(series, curve, 0.5, thresholds.half_entropy_d_k)


def is_later(off: Curve, on: Curve) -> bool | None:
    """Return whether the second curve rises through a half at a larger d_k than the first."""
    states = [
        all_known((beyond(off[d_k], 0.5, above=True), beyond(on[d_k], 0.5, above=False)))
        for d_k in off
    ]
    return any_known(states)


class Grading(NamedTuple):
    """The weights of keys of known cosine, at one (n_k, n_q, inputs, dtype), over d_k.

    `curves` are by scale rule (`unscaled`, `scaled`), metric and cosine.
    """

    label: str
    n_k: int
    curves: Mapping[tuple[str, str, float], Curve]
    unrelated: bool = False

    def curve(self, rule: str, metric: str, cosine: float) -> Curve:
        """Return one metric over d_k. Raises MissingError."""
        found = self.curves.get((rule, metric, cosine))
        if found is None:
            raise MissingError(f"the run has no {rule} weights by cosine")
        return found


def less(a: Estimate, b: Estimate) -> bool | None:
    """Return whether a is less than b, decided by the interval of the difference."""
    return beyond(Estimate(b.mean - a.mean, b.low - a.high, b.high - a.low), 0.0, above=True)


def parts(*axes: str) -> Callable[[Settings, pd.DataFrame], Sequence[WholeTable]]:
    """Return a function that makes one part per combination of axes, named by varying ones."""

    def found(settings: Settings, table: pd.DataFrame) -> list[WholeTable]:
        varying = [name for name in axes if len(set(table[name])) > 1]
        return [
            WholeTable(
                rows,
                ", ".join(f"{name} = {rows[name].iloc[0]}" for name in varying),
                settings=settings,
            )
            for _, rows in table.groupby(list(axes), sort=True)
        ]

    return found
