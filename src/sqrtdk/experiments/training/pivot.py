"""Make the report's compact table of the best learning rates from rates.csv."""

from dataclasses import replace

import pandas as pd

from sqrtdk.experiments import compact
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
    return compact.summarized(
        best,
        [column for column in COLUMNS if column.name != "learning_rate"],
        {
            "steps_to_90": ("crossfit_steps", "crossfit_low", "crossfit_high"),
            "learning_rate": ("learning_rate",),
        },
        also=["steps"],
    )
