"""Make the report's compact tables of the sinks from sinks.csv."""

import math

import pandas as pd

from sqrtdk.experiments.sinks import sinks

COLUMNS = sinks.COLUMNS

_METRICS = ("loss_unmatched", "loss_matched", "first_weight_unmatched")


def summarized(table: pd.DataFrame) -> pd.DataFrame:
    """Return losses and the weight on the first key, in the shape of summary.csv."""
    axes = ["d_k", "n_k", "batch_size", "attention", "first_key"]
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
