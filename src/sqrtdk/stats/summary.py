"""Summarize runs.csv as summary.csv: for every metric the mean over seeds with its interval.

The seed is the statistical unit: queries of one cell share their keys, so they are not
independent, and a cell counts once whatever its number of queries.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sqrtdk.schema import Column, Settings, Value
from sqrtdk.stats import by_row
from sqrtdk.storage import tables
from sqrtdk.theory.points import law_at

if TYPE_CHECKING:
    import pandas as pd

Group: TypeAlias = tuple[Any, ...]
"""Values of the axes, in the order of the columns and without the seed."""

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
        "reciprocal of the mean (docs/statistics.md). Cut to the values that the metric can have: "
        "of shares, losses and entropies at least 0. Empty for one seed, and for a median of fewer "
        "than six seeds of which some are 0.",
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
    runs: "pd.DataFrame",
    schema: Sequence[Column],
    exact: Mapping[Group, float],
    rare: Collection[Group] = (),
) -> list[tables.Row]:
    """Return one row per (axes, metric), in the order of the axes and of the schema's metrics.

    A metric that is undefined in a group (all its seeds are empty) has no row there. `exact` maps
    (axes..., metric) to the exact value. The groups in `rare` get no z.
    """
    names = [column.name for column in columns(schema)]
    found = {column.name: runs[column.name].tolist() for column in schema}
    return [dict(zip(names, row, strict=True)) for row in summarized(found, schema, exact, rare)]


def summarized(
    runs: Mapping[str, Sequence[Value]],
    schema: Sequence[Column],
    exact: Mapping[Group, float],
    rare: Collection[Group] = (),
) -> Iterator[tuple[Value, ...]]:
    """Yield the rows of `summarize` as tuples, from the columns of runs.csv as lists."""
    axes = [c.name for c in schema if c.axis and c.name != "seed"]
    places: dict[Group, list[int]] = {}
    for place, group in enumerate(zip(*(runs[name] for name in axes), strict=True)):
        places.setdefault(group, []).append(place)
    groups = sorted(places)
    by_size: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        by_size.setdefault(len(places[group]), []).append(number)
    metrics = [column for column in schema if not column.axis]
    # A column of statistics for each metric, with a row for each group; n_seeds is 0 where the
    # metric is undefined.
    found = np.zeros((len(metrics), len(groups), len(STATISTICS) - 1))
    for place, metric in enumerate(metrics):
        column = np.array(runs[metric.name], dtype=np.float64)
        for numbers in by_size.values():
            values = column[[places[groups[number]] for number in numbers]]
            for at, known in _without_empty(values):
                of_groups = [groups[numbers[one]] for one in at]
                found[place, [numbers[one] for one in at]] = _statistics(
                    metric, known, axes, of_groups, exact, rare
                )
    rows = found.tolist()
    for number, group in enumerate(groups):
        for place, metric in enumerate(metrics):
            n_seeds, *others = rows[place][number]
            if n_seeds:
                yield (*group, metric.name, int(n_seeds), *others)


def _without_empty(values: by_row.Rows) -> Iterator[tuple[list[int], by_row.Rows]]:
    """Yield the rows of [groups, seeds] with equally many seeds that are not NaN, without the NaN.

    With each part come the places of its rows. Rows of nothing but NaN are left out.
    """
    known = ~np.isnan(values)
    counts = np.count_nonzero(known, axis=1)
    for count in np.unique(counts[counts > 0]).tolist():
        at = np.flatnonzero(counts == count)
        yield at.tolist(), values[at][known[at]].reshape(len(at), count)


def _statistics(
    metric: Column,
    values: by_row.Rows,
    axes: Sequence[str],
    groups: Sequence[Group],
    exact: Mapping[Group, float],
    rare: Collection[Group],
) -> by_row.Rows:
    """Return the statistics of a metric for groups [groups, seeds], in the order of STATISTICS."""
    things = [
        np.full(len(groups), factor)
        if isinstance(factor, int)
        else np.array([int(group[axes.index(factor)]) for group in groups])
        for factor in metric.counted
    ]
    found = by_row.statistics(
        values,
        pool=metric.pool,
        skewed=metric.skewed,
        exact=np.array([exact.get((*group, metric.name), np.nan) for group in groups], np.float64),
        counted=np.prod(things, axis=0) if things else None,
        independent=things[0].astype(np.float64) if things else None,
    )
    if rare:
        found["z"] = np.where([group in rare for group in groups], np.nan, found["z"])
    # A share is within 0 to 1, and a loss not below 0, even if the t-interval of few seeds is.
    for end in ("ci_low", "ci_high"):
        found[end] = np.clip(found[end], *metric.possible)
    return np.stack([found[column.name] for column in STATISTICS[1:]], axis=1)


def exact_values(settings: Settings, table: "pd.DataFrame") -> dict[Group, float]:
    """Return exact.csv as `summarize` looks it up: under every dtype."""
    return exact_by_group(settings, table.itertuples(index=False, name=None))


def exact_by_group(settings: Settings, rows: Iterable[Group]) -> dict[Group, float]:
    """Return the rows of exact.csv as `summarized` looks them up: under every dtype."""
    return {
        (d_k, n_k, n_q, inputs, dtype, scaling, metric): exact
        for d_k, n_k, n_q, inputs, scaling, metric, exact in rows
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


def last_step(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of the last step."""
    found: pd.DataFrame = table[table["step"] == table["step"].max()]
    return found
