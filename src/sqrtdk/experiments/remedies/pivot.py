"""Make the report's compact tables of the remedies from ladder.csv."""

import math

import pandas as pd

from sqrtdk.experiments.remedies import ladder
from sqrtdk.schema import Column

COLUMNS = (
    *ladder.COLUMNS,
    Column(
        "steps_to_90",
        "Median over seeds of the steps to 90 %, each seed at the learning rate that the other "
        "half of the seeds chose.",
        "steps",
    ),
)

_METRICS = {
    "steps_to_90": ("crossfit_steps", "crossfit_low", "crossfit_high"),
    "prototype_steps": ("prototype_steps", None, None),
    "sensitivity": ("sensitivity", "sensitivity_low", "sensitivity_high"),
}


def summarized(table: pd.DataFrame) -> pd.DataFrame:
    """Return the steps, those of the prototype and the sensitivity, in the shape of summary.csv."""
    axes = ["d_k", "n_k", "batch_size", "remedy"]
    parts = []
    for metric, (mean, low, high) in _METRICS.items():
        rows = table[table[mean].notna()]
        parts.append(
            rows[axes].assign(
                metric=metric,
                n_seeds=rows["n_seeds"],
                mean=rows[mean],
                ci_low=math.nan if low is None else rows[low],
                ci_high=math.nan if high is None else rows[high],
                exact=math.nan,
                steps=rows["steps"],
            )
        )
    return pd.concat(parts)
