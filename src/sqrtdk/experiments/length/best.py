"""Compute best.csv: the power of log n that keeps the selectivity, or the share of the entropy.

As for the exponent of d_k: for each seed, the slope of the metric on ln n_k is that of least
squares, and the best power is where it changes its sign, linear between two powers. Its exact value
is the same root of the exact means.
"""

from collections.abc import Iterator
from functools import partial
from typing import cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.length.curves import METRICS, exact
from sqrtdk.experiments.length.measure import ROWS, Settings, power_factor, powers
from sqrtdk.schema import Column
from sqrtdk.stats.roots import exact_root, root_columns, root_row, sign_change, slope
from sqrtdk.storage import tables

MOST = 2.5
"""The largest power that is tried."""

COLUMNS = (
    *(schema.axis_column(key) for key in (schema.N_Q, ROWS)),
    Column(
        "criterion", "What has no slope over ln n_k: a column of runs.csv.", read=str, axis=True
    ),
    *root_columns("power of log n", MOST),
)


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of best.csv for a run's runs.csv."""
    steps = settings["power_steps"]
    grid, names = np.array(powers(steps)), [f"{power:g}" for power in powers(steps)]
    for (n_q, law), frame in runs[runs["rule"].isin(names)].groupby(["n_q", "rows"], sort=True):
        sizes = sorted(set(frame["n_k"].tolist()))
        if len(sizes) < 2:
            continue
        x = np.log(np.array(sizes, dtype=float))
        for metric in METRICS:
            table = frame.pivot_table(index=["seed", "rule"], columns="n_k", values=metric)
            values = np.array([[table.loc[(seed, name)] for name in names]
                               for seed in sorted(set(frame["seed"]))], dtype=float)  # fmt: skip
            best = np.array([sign_change(grid, one) for one in slope(x, values)])
            exact = exact_root(partial(_exact_slope, str(law), metric, sizes), grid)
            axes = {"n_q": n_q, "rows": law, "criterion": metric}
            yield cast(tables.Row, axes | root_row(best, exact))


def _exact_slope(law: str, metric: str, sizes: list[int], power: float) -> float:
    """Return the slope over ln n_k of the exact means under a power of log n."""
    means = [getattr(exact(law, n_k, power_factor(n_k, power)), metric) for n_k in sizes]
    return float(slope(np.log(np.array(sizes, dtype=float)), np.array(means)))
