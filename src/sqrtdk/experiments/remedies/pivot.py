"""Make the report's compact table of the sensitivity to the learning rate from ladder.csv."""

import math

import pandas as pd

from sqrtdk.experiments.remedies import ladder

COLUMNS = ladder.COLUMNS


def summarized(table: pd.DataFrame) -> pd.DataFrame:
    """Return the sensitivity of every remedy, in the shape of summary.csv."""
    axes = ["d_k", "n_k", "batch_size", "remedy"]
    return table[axes].assign(
        metric="sensitivity",
        n_seeds=table["n_seeds"],
        mean=table["sensitivity"],
        ci_low=table["sensitivity_low"],
        ci_high=table["sensitivity_high"],
        exact=math.nan,
    )
