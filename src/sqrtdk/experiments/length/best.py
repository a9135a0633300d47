"""Compute best.csv: the power of log n that keeps the selectivity, or the share of the entropy.

As for the exponent of d_k: for each seed, the slope of the metric on ln n_k is that of least
squares, and the best power is where it changes its sign, linear between two powers. Its exact value
is the same root of the exact means; that over a part of the lengths shows how far one power holds.
"""

from collections.abc import Iterator
from functools import partial
from typing import cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.core.slopes import sign_change, slope
from sqrtdk.experiments.length.curves import attainable, exact
from sqrtdk.experiments.length.measure import ROWS, Settings, power_factor, powers
from sqrtdk.schema import Column
from sqrtdk.stats.roots import exact_root, root_columns, root_row
from sqrtdk.storage import tables

MOST = 2.5
"""The largest power that is tried."""

SHARE = "selectivity_share"
"""The criterion of the claims; see the columns."""

CRITERIA = ("selectivity", SHARE, "entropy_share")

CLAIMED = {"moves_half": 0.5, "moves_one": 1.0}
"""Powers of log n of the claims, by the columns that say how far they keep a criterion."""

COLUMNS = (
    *(schema.axis_column(key) for key in (schema.N_Q, ROWS)),
    Column(
        "criterion",
        "What has no slope over ln n_k: a column of runs.csv, or selectivity_share, the "
        "selectivity over the largest attainable one of its length (see curves.csv).",
        read=str,
        axis=True,
    ),
    *root_columns("power of log n", MOST),
    Column("exact_first", "`exact` over the lengths up to the middle one.", optional=True),
    Column("exact_last", "`exact` over the lengths from the middle one on.", optional=True),
    *(
        Column(
            name,
            f"Exact range over the lengths under the power {power:g}, as a share of the largest "
            "value.",
        )
        for name, power in CLAIMED.items()
    ),
)


def halves(sizes: list[int]) -> tuple[list[int], list[int]]:
    """Return the lengths up to the middle one, and from it on.

    >>> halves([16, 64, 256, 1024])
    ([16, 64, 256], [256, 1024])
    """
    middle = len(sizes) // 2
    return sizes[: middle + 1], sizes[middle:]


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of best.csv for a run's runs.csv."""
    steps = settings["power_steps"]
    grid, names = np.array(powers(steps)), [f"{power:g}" for power in powers(steps)]
    for (n_q, law), frame in runs[runs["rule"].isin(names)].groupby(["n_q", "rows"], sort=True):
        sizes = sorted(set(frame["n_k"].tolist()))
        if len(sizes) < 2:
            continue
        limits = [attainable(str(law), n_k) for n_k in sizes]
        for criterion in CRITERIA:
            metric = "selectivity" if criterion == SHARE else criterion
            table = frame.pivot_table(index=["seed", "rule"], columns="n_k", values=metric)
            values = np.array([[table.loc[(seed, name)] for name in names]
                               for seed in sorted(set(frame["seed"]))], dtype=float)  # fmt: skip
            if criterion == SHARE:
                values /= limits
            slopes = slope(np.log(np.array(sizes, dtype=float)), values)
            best = np.array([sign_change(grid, one) for one in slopes])
            of = partial(_exact_root, str(law), criterion, grid)
            axes = {"n_q": n_q, "rows": law, "criterion": criterion}
            parts = {
                name: of(part)
                for name, part in zip(("exact_first", "exact_last"), halves(sizes), strict=True)
            }
            moves = {
                name: _range(_exact_means(str(law), criterion, sizes, power))
                for name, power in CLAIMED.items()
            }
            yield cast(tables.Row, axes | root_row(best, of(sizes)) | parts | moves)


def _exact_root(law: str, criterion: str, grid: np.ndarray, sizes: list[int]) -> float:
    """Return the best power of the exact means over some lengths; NaN for fewer than two."""
    if len(sizes) < 2:
        return float("nan")
    x = np.log(np.array(sizes, dtype=float))

    def of(power: float) -> float:
        return float(slope(x, _exact_means(law, criterion, sizes, power)))

    return exact_root(of, grid)


def _exact_means(law: str, criterion: str, sizes: list[int], power: float) -> np.ndarray:
    """Return the exact means of a criterion at each length under a power of log n."""
    means = [exact(law, n_k, power_factor(n_k, power)) for n_k in sizes]
    if criterion == "entropy_share":
        return np.array([one.entropy_share for one in means])
    limits = [attainable(law, n_k) if criterion == SHARE else 1.0 for n_k in sizes]
    return np.array([one.selectivity for one in means]) / limits


def _range(values: np.ndarray) -> float:
    return float(1 - values.min() / values.max())
