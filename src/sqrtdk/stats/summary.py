"""Summarize runs.csv as summary.csv: for every metric the mean over seeds with its interval.

The seed is the statistical unit: queries of one cell share their keys, so they are not
independent, and a cell counts once whatever its number of queries.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd

from sqrtdk.schema import Column, Settings
from sqrtdk.stats.intervals import statistics
from sqrtdk.storage import tables
from sqrtdk.theory.points import law_at

STATISTICS = (
    Column("metric", "Column of runs.csv that the row summarizes.", read=str, axis=True),
    Column("n_seeds", "Number of seeds: the sample size.", "seeds", read=int),
    Column(
        "mean",
        "Mean over seeds. Of a column pooled as rms (grad_*_rms, logit_std, jacobian_norm), the "
        "quadratic mean. Of one pooled as median (grad_*_median, grad_*_q05, grad_*_q95), the "
        "median over seeds; of an even number, the geometric mean of the middle two.",
    ),
    Column("sd", "Standard deviation over seeds. Empty for one seed.", optional=True),
    Column("median", "Median over seeds."),
    Column(
        "ci_low",
        "Lower end of the 95 % interval of `mean`, with seeds as units: Student's t-interval; for "
        "rms, that of the logarithm of the mean square; for median, between two seeds (order "
        "statistics), or below six seeds the t-interval of the logarithms; for shares that count, "
        "Clopper and Pearson's with an effective number; for grad_*_top1_share, that of the "
        "reciprocal of the mean (docs/statistics.md). Of shares at least "
        "0. Empty for one seed, and for a median of fewer than six seeds of which some are 0.",
        optional=True,
    ),
    Column(
        "ci_high",
        "Upper end of the same interval; of shares at most 1. Above 0 even if none was seen.",
        optional=True,
    ),
    Column("exact", "Exact expectation, where theory has one.", optional=True),
    Column(
        "z",
        "(mean - exact) in standard errors of the mean; of squares for rms. Empty where queries "
        "have a match and the exact mean of 1 - max p is below 0.02: rows too rare for a run to "
        "see carry all means there.",
        optional=True,
    ),
)


def columns(runs: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns of summary.csv: the axes of runs.csv except the seed, and statistics."""
    return (*(c for c in runs if c.axis and c.name != "seed"), *STATISTICS)


def summarize(
    runs: pd.DataFrame,
    schema: Sequence[Column],
    exact: Mapping[tuple[Any, ...], float],
    rare: Collection[tuple[Any, ...]] = (),
) -> list[tables.Row]:
    """Return one row per (axes, metric), in the order of the axes and of the schema's metrics.

    A metric that is undefined in a group (all its seeds are empty) has no row there. `exact` maps
    (axes..., metric) to the exact value. The groups in `rare` get no z.
    """
    axes = [c.name for c in schema if c.axis and c.name != "seed"]
    result = []
    for group, frame in runs.groupby(axes, sort=True):
        at = cast(tables.Row, dict(zip(axes, group, strict=True)))
        for metric in (c for c in schema if not c.axis):
            values = frame[metric.name].dropna().to_numpy(dtype=float)
            if len(values):
                target = exact.get((*group, metric.name), np.nan)
                things = [
                    factor if isinstance(factor, int) else int(at[factor])
                    for factor in metric.counted
                ]
                found: dict[str, float] = statistics(
                    values,
                    pool=metric.pool,
                    skewed=metric.skewed,
                    exact=target,
                    counted=math.prod(things) if things else 0,
                    independent=things[0] if things else None,
                )
                if group in rare:
                    found["z"] = math.nan
                if metric.unit == "share":
                    # A share is within 0 to 1, even if the t-interval of few seeds is not.
                    for end in ("ci_low", "ci_high"):
                        found[end] = float(np.clip(found[end], 0.0, 1.0))
                row: tables.Row = {"metric": metric.name, **found}
                result.append(at | row)
    return result


def exact_values(settings: Settings, table: pd.DataFrame) -> dict[tuple[Any, ...], float]:
    """Return exact.csv as `summarize` looks it up: under every dtype."""
    return {
        (d_k, n_k, n_q, inputs, dtype, scaling, metric): exact
        for d_k, n_k, n_q, inputs, scaling, metric, exact in table.itertuples(
            index=False, name=None
        )
        for dtype in settings.get("dtype", ())
    }


RARE = 0.02
"""Mean of 1 - max p below which rows with a match have no z: a few rows in thousands carry all
means, and a sample has hardly any of them. Its mean and its standard error are both far too small
then, so that z says nothing."""


def rarely_seen(settings: Settings, exact: Mapping[tuple[Any, ...], float]) -> set[tuple[Any, ...]]:
    """Return the axes of groups whose exact means are carried by events that a run rarely sees."""
    laws = settings.get("inputs", {})
    return {
        key[:-1]
        for key, value in exact.items()
        if key[-1] == "max_weight_gap"
        and value < RARE
        and (law := law_at(laws[key[3]], key[0])) is not None
        and law.kind == "match"
    }


def last_step(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the last step."""
    found: pd.DataFrame = table[table["step"] == table["step"].max()]
    return found
