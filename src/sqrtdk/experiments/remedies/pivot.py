"""Make the report's compact table of the sensitivity to the learning rate from ladder.csv."""

import pandas as pd

from sqrtdk.experiments import compact
from sqrtdk.experiments.remedies.ladder import COLUMNS

__all__ = ["COLUMNS", "summarized"]


def summarized(table: pd.DataFrame) -> pd.DataFrame:
    """Return the sensitivity of every remedy, in the shape of summary.csv."""
    return compact.summarized(table, COLUMNS, compact.own_ends("sensitivity"))
