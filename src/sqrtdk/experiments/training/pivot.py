"""Make the report's compact table of the best learning rates from rates.csv."""

import math
from dataclasses import replace

import pandas as pd

from sqrtdk.experiments.training import rates

COLUMNS = tuple(
    replace(column, meaning="Learning rate of the grid that is best for the scale rule.")
    if column.name == "learning_rate"
    else column
    for column in rates.COLUMNS
)
"""The columns of rates.csv as a table of the best rates alone has them."""


def summarized(table: pd.DataFrame) -> pd.DataFrame:
    """Return the best learning rates of rates.csv and their steps, in the shape of summary.csv.

    summary.csv has every step and learning rate, too many rows for a page.
    """
    best = table[table["best"] == 1]
    axes = ["d_k", "n_k", "batch_size", "optimizer", "loss", "scaling"]
    steps = best[[*axes, "n_seeds", "steps"]].assign(
        metric="steps_to_90",
        mean=best["crossfit_steps"],
        ci_low=best["crossfit_low"],
        ci_high=best["crossfit_high"],
        exact=math.nan,
    )
    rate = best[[*axes, "n_seeds", "steps"]].assign(
        metric="learning_rate",
        mean=best["learning_rate"],
        ci_low=math.nan,
        ci_high=math.nan,
        exact=math.nan,
    )
    order = [*axes, "metric", "n_seeds", "mean", "ci_low", "ci_high", "exact", "steps"]
    return pd.concat([steps, rate])[order]
