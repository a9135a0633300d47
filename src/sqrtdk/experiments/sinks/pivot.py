"""Make the report's compact tables of the sinks from sinks.csv."""

import pandas as pd

from sqrtdk.experiments import compact
from sqrtdk.experiments.sinks.sinks import COLUMNS

__all__ = ["COLUMNS", "summarized"]


def summarized(table: pd.DataFrame) -> pd.DataFrame:
    """Return losses and the weight on the first key, in the shape of summary.csv."""
    return compact.summarized(
        table, COLUMNS, compact.own_ends("loss_unmatched", "loss_matched", "first_weight_unmatched")
    )
