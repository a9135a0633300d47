"""Compute crossings.csv: the d_k at which curves without scaling cross a level, measured and exact.

Three rows are about the unscaled rule alone: where half of the entropy is lost, where the largest
weight is nearly 1, and where half of the gradient's entries are dead. The others give, for each
gradient, the d_k from which it is smaller without scaling than with it, for the root mean square
and for the typical row. The two differ by orders of magnitude, which is the point of the table.
"""

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple, cast

import pandas as pd

from sqrtdk import schema
from sqrtdk.claims import findings
from sqrtdk.schema import Column, Settings
from sqrtdk.stats.curves import Curve, crossing
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import series_of
from sqrtdk.storage import tables
from sqrtdk.theory import thresholds
from sqrtdk.theory.points import is_covered

HALF, ONE_HOT, DEAD = "half_entropy", "one_hot", "dead_entries"


class _Level(NamedTuple):
    metric: str
    level: float
    above: bool


LEVELS = {
    HALF: _Level("entropy_normalized", 0.5, above=False),
    ONE_HOT: _Level("max_weight", findings.ONE_HOT, above=True),
    DEAD: _Level("grad_logits_dead_entries", 0.5, above=True),
}
"""The quantities that are about the unscaled rule alone."""

CROSSING_GRADIENTS: tuple[Literal["logits", "scores", "q", "k", "v"], ...] = (
    "logits",
    "scores",
    "q",
    "k",
    "v",
)

COLUMNS = (
    *(schema.axis_column(key) for key in (schema.N_K, schema.N_Q, schema.INPUTS, schema.DTYPE)),
    Column(
        "quantity",
        "half_entropy: where the unscaled entropy falls to half of ln n_k. one_hot: where the "
        f"unscaled max_weight rises to {findings.ONE_HOT}. dead_entries: where the unscaled "
        "grad_logits_dead_entries rises to 1/2. Otherwise a column of runs.csv: from where on it "
        "is smaller without scaling than with it.",
        read=str,
        axis=True,
    ),
    Column(
        "d_k",
        "The d_k of the last crossing, interpolated between values of the grid by a monotone "
        "cubic of ln d_k, on the logit scale for shares and on the log scale for ratios. Empty "
        "when there is none.",
        "dimensions",
        optional=True,
    ),
    Column(
        "ci_low",
        "Where the ends of the 95 % intervals cross, lower, minus the interpolation error. "
        "1 where an end is past the level at every d_k.",
        optional=True,
    ),
    Column(
        "ci_high",
        "The same, upper; inf where an end is not past the level at the largest d_k of the grid.",
        optional=True,
    ),
    Column(
        "beyond",
        "Where there is no crossing: never, if it is not past the level at the grid's largest "
        "d_k; always, if it is past it at the smallest (of gradients, the smallest above 1).",
        read=str,
    ),
    Column("exact", "The exact d_k; inf where there is none. Empty without theory.", optional=True),
    Column(
        "two_ln_n_k",
        "2 ln n_k. In the random energy model, the limit of many keys, all of the entropy is gone "
        "from there on, and half of it at half of that d_k.",
    ),
)


def rows(
    settings: Settings, table: pd.DataFrame, paired: pd.DataFrame | None = None
) -> Iterator[tables.Row]:
    """Yield every crossing of every series of the summary table that can have one.

    `paired` is contrasts.csv; without it the intervals of ratios ignore the shared draws.
    """
    quantities = [f"grad_{x}_{pooled}" for x in CROSSING_GRADIENTS for pooled in ("rms", "median")]
    for series in series_of(settings, table, paired):
        covered = is_covered(settings["inputs"][series.axes["inputs"]])
        for quantity in (*LEVELS, *quantities):
            metric, level, above = LEVELS.get(quantity, (quantity, 1.0, False))
            try:
                curve = (
                    series.curve("unscaled", metric)
                    if quantity in LEVELS
                    else _above_one(series.ratio(quantity))
                )
            except MissingError:
                continue
            found, beyond = _past_from(curve, level, above=above)
            yield {
                **cast(tables.Row, series.axes),
                "quantity": quantity,
                "d_k": found.mean,
                "ci_low": found.low,
                "ci_high": found.high,
                "beyond": beyond,
                "exact": _exact(quantity, series.n_k) if covered else math.nan,
                "two_ln_n_k": 2 * math.log(series.n_k),
            }


def _above_one(ratios: Curve) -> Curve:
    """Return ratios without d_k = 1, where both rules are the same."""
    return {d_k: point for d_k, point in ratios.items() if d_k > 1}


def _past_from(curve: Curve, level: float, *, above: bool) -> tuple[Estimate, str]:
    """Return the d_k from which the curve stays past the level; without one, never or always."""
    past = [point.mean > level if above else point.mean < level for point in curve.values()]
    if not past or not past[-1]:
        return Estimate(math.nan), "never"
    if all(past):
        return Estimate(math.nan), "always"
    return crossing(curve, level) or Estimate(math.nan), ""


def _exact(quantity: str, n_k: int) -> float:
    """Return the exact crossing: infinite if there is none, NaN without theory."""
    if quantity == HALF:
        return thresholds.half_entropy_d_k(n_k)
    if quantity == ONE_HOT:
        return thresholds.one_hot_d_k(n_k, LEVELS[ONE_HOT].level)
    exact = {f"grad_{x}_rms": x for x in CROSSING_GRADIENTS}
    return thresholds.gradient_crossing_d_k(n_k, exact[quantity]) if quantity in exact else math.nan
