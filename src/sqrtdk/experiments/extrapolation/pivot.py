"""Make the report's compact tables of length from lengths.csv."""

import math

import pandas as pd

from sqrtdk.experiments.extrapolation import lengths

COLUMNS = lengths.COLUMNS

_METRICS = ("match_weight", "held_out_loss")


def summarized(table: pd.DataFrame) -> pd.DataFrame:
    """Return the weight on the match and the loss, in the shape of summary.csv."""
    axes = ["d_k", "n_k", "batch_size", "scaling", "multiplier", "n_asked"]
    parts = []
    for metric in _METRICS:
        rows = table[table[metric].notna()]
        parts.append(
            rows[axes].assign(
                metric=metric,
                n_seeds=rows["n_seeds"],
                mean=rows[metric],
                ci_low=rows[f"{metric}_low"],
                ci_high=rows[f"{metric}_high"],
                exact=math.nan,
            )
        )
    return pd.concat(parts)
