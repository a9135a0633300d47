"""Compute best.csv: the exponent of d_k that keeps the entropy, or the weight of the match.

For each seed and exponent, the slope of the metric on ln d_k is that of least squares over the
run's d_k. The best exponent of a seed is where that slope changes its sign, linear between two
exponents. Its exact value is the same root of the exact means.
"""

from collections.abc import Iterator
from typing import cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.core.slopes import sign_change, slope
from sqrtdk.experiments.exponent.exact import means
from sqrtdk.experiments.exponent.measure import Settings, exponents, scale
from sqrtdk.schema import Column, Entry
from sqrtdk.stats.roots import exact_root, root_columns, root_row
from sqrtdk.storage import tables

CRITERIA = {"entropy": "entropy_nats", "match": "match_weight"}
"""What is to stay as it is over d_k, by the name of the criterion."""

MOST = 1.5
"""The largest exponent that is tried."""

COLUMNS = (
    *(schema.axis_column(key) for key in (schema.N_K, schema.N_Q, schema.INPUTS)),
    Column(
        "criterion",
        "entropy: entropy_nats has no slope over ln d_k. match: match_weight has none; only where "
        "queries have a match.",
        read=str,
        axis=True,
    ),
    *root_columns("exponent", MOST),
)


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of best.csv for a run's runs.csv."""
    axes = ["n_k", "n_q", "inputs"]
    grid = np.array(exponents(settings["exponent_steps"]))
    for at, frame in runs.groupby(axes, sort=True):
        common = cast(tables.Row, dict(zip(axes, at, strict=True)))
        entry = settings["inputs"][str(common["inputs"])]
        for criterion, metric in CRITERIA.items():
            if criterion == "match" and not has_match(entry):
                continue
            best = of_seeds(frame, metric, grid)
            sizes = sorted(set(frame["d_k"].tolist()))
            exact = _exact(entry, int(cast(int, common["n_k"])), sizes, metric, grid)
            yield common | {"criterion": criterion, **root_row(best, exact)}


def has_match(entry: Entry) -> bool:
    """Return whether an input law gives each query a matching key."""
    return str(entry["law"]) in ("planted", "correlated", "graded")


def of_seeds(frame: pd.DataFrame, metric: str, grid: np.ndarray) -> np.ndarray:
    """Return the best exponent of each seed; NaN where the slope does not change its sign."""
    table = frame.pivot_table(index=["seed", "exponent"], columns="d_k", values=metric, sort=True)
    slopes = slope(np.log(table.columns.to_numpy(dtype=float)), table.to_numpy(dtype=float))
    return np.array([sign_change(grid, one) for one in slopes.reshape(-1, len(grid))])


def _exact(entry: Entry, n_k: int, sizes: list[int], metric: str, grid: np.ndarray) -> float:
    if n_k < 2 or len(sizes) < 2 or any(means(entry, n_k, d_k, 0.0) is None for d_k in sizes):
        return np.nan
    x = np.log(np.array(sizes, dtype=float))

    def at(exponent: float) -> float:
        values = [getattr(means(entry, n_k, d_k, scale(d_k, exponent)), metric) for d_k in sizes]
        return float(slope(x, np.array(values)))

    return exact_root(at, grid)
