"""Make the report's compact tables of length from lengths.csv."""

import pandas as pd

from sqrtdk.experiments import compact
from sqrtdk.experiments.extrapolation.lengths import COLUMNS

__all__ = ["COLUMNS", "summarized"]


def summarized(table: pd.DataFrame) -> pd.DataFrame:
    """Return the weight on the match, the loss and the entropy, in the shape of summary.csv."""
    return compact.summarized(
        table, COLUMNS, compact.own_ends("match_weight", "held_out_loss", "entropy_nats")
    )
