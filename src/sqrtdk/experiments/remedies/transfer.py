"""Compute transfer.csv: whether the best learning rate is the same at every d_k.

The best rate of a seed is where a parabola through the logarithms of the steps to 90 % at its best
rate of the grid and the two beside it is lowest. A run that did not reach 90 % counts as twice the
steps trained. The slope is that of ln(best rate) over ln(d_k), by least squares, one for each seed:
0 if the rate transfers over d_k (Lingle 2024, arXiv 2404.05728).
"""

from collections.abc import Iterator
from typing import cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.remedies.measure import REMEDY, Settings
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.training import rates
from sqrtdk.schema import Column
from sqrtdk.stats.seed_columns import estimate_columns, mean_row
from sqrtdk.storage import tables

SIZES = (schema.N_K, training.BATCH_SIZE)

COLUMNS = (
    *(schema.axis_column(key) for key in (*SIZES, REMEDY, schema.D_K)),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    *estimate_columns(
        "best_rate",
        "Learning rate with the fewest steps to 90 %, interpolated on the grid; geometric mean "
        "over seeds, with the interval of the logarithms.",
        ends="rate",
        optional=False,
    ),
    *estimate_columns(
        "alignment",
        "Cosine of a held-out query and its key at the end, mean over queries and seeds, at the "
        "rate of the grid next to best_rate.",
    ),
    *estimate_columns(
        "slope",
        "Slope of ln best rate over ln d_k, mean over seeds; the same in all rows of a remedy. "
        "0 if the rate is the same at every d_k. Empty with one d_k.",
    ),
)


def best_rates(runs: rates.Runs, budget: int) -> np.ndarray:
    """Return the logarithm of the best rate of each seed."""
    logs = np.log(runs.rates)
    steps = np.log(np.where(np.isfinite(runs.steps), np.maximum(runs.steps, 1.0), 2.0 * budget))
    return np.array([_lowest(logs, one) for one in steps])


def _lowest(x: np.ndarray, y: np.ndarray) -> float:
    """Return where y is lowest, by a parabola through the lowest point and its neighbours.

    The middle of a plateau counts as its lowest point; at an end of the grid, it is the end.

    >>> _lowest(np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.0, 1.0]))
    1.0
    """
    ties = np.flatnonzero(y == y.min())
    if len(ties) > 1:
        return float(np.mean(x[ties]))
    place = int(ties[0])
    if place in (0, len(x) - 1):
        return float(x[place])
    # Slopes on both sides; the parabola's slope is linear, and 0 at its lowest point.
    slopes = np.diff(y[place - 1 : place + 2]) / np.diff(x[place - 1 : place + 2])
    middles = (x[place - 1 : place + 1] + x[place : place + 2]) / 2
    return float(middles[0] - slopes[0] * (middles[1] - middles[0]) / (slopes[1] - slopes[0]))


def slopes(best: np.ndarray, sizes: list[int]) -> np.ndarray:
    """Return each seed's slope of ln best rate [n_seeds, n_sizes] over ln d_k."""
    x = np.log(sizes) - np.mean(np.log(sizes))
    found: np.ndarray = best @ x / float(x @ x)
    return found


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of transfer.csv for a run's runs.csv."""
    budget = int(settings["steps"])
    axes = [key.name for key in (*SIZES, REMEDY)]
    for at, frame in runs.groupby(axes, sort=True):
        common = cast(tables.Row, dict(zip(axes, at, strict=True)))
        sizes = sorted({int(d_k) for d_k in frame["d_k"]})
        cells = {d_k: frame[frame["d_k"] == d_k] for d_k in sizes}
        best = np.stack([best_rates(rates.runs_of(cells[d_k]), budget) for d_k in sizes], axis=1)
        slope: tables.Row = {}
        if len(sizes) > 1:
            slope |= mean_row("slope", slopes(best, sizes))
        for place, d_k in enumerate(sizes):
            logs = best[:, place]
            mean = mean_row("best_rate", logs, ends="rate")
            row: tables.Row = {
                "d_k": d_k,
                "n_seeds": len(logs),
                **{name: float(np.exp(log)) for name, log in mean.items()},
                **_aligned(cells[d_k], float(np.mean(logs))),
                **slope,
            }
            yield {column.name: (common | row).get(column.name, np.nan) for column in COLUMNS}


def _aligned(cells: pd.DataFrame, log_rate: float) -> tables.Row:
    """Return the alignment at the rate of the grid that is next to the best one."""
    grid = np.array(sorted(set(cells["learning_rate"])))
    near = grid[np.argmin(np.abs(np.log(grid) - log_rate))]
    return {**mean_row("alignment", cells.loc[cells["learning_rate"] == near, "alignment"])}
