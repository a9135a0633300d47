"""Compute lengths.csv: every scale rule at every number of keys asked, at its best learning rate.

The best rate has the least loss at the number of keys of training; longer libraries have no say.
Half of the seeds choose it, and the other half are reported at it, and vice versa, as in
`training.crossfit`.
"""

from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.extrapolation import measure as measured
from sqrtdk.experiments.extrapolation.measure import MULTIPLIER, N_ASKED, Settings
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.training.crossfit import CHOSEN_RATES, Chosen, at_least_loss
from sqrtdk.schema import Column
from sqrtdk.stats.seed_columns import estimate_columns, mean_row, ratio_row
from sqrtdk.stats.series import scaled_rule
from sqrtdk.storage import tables

METRICS = {
    "match_weight": "Weight on the wanted item",
    "held_out_loss": "Held-out loss",
    "entropy_nats": "Entropy of the weights in nats",
    "accuracy": "Share of queries whose largest weight is on the wanted item",
    "scale": "Factor that multiplies the scores",
    "best_match_weight": "Weight on the wanted item by the best possible weights",
    "best_loss": "Loss of the best possible output",
    "best_accuracy": "Accuracy of the best possible weights",
}

POSSIBLE = {column.name: column.possible for column in measured.COLUMNS}
"""The values that each metric can have."""

COLUMNS = (
    *(schema.axis_column(key) for key in (*training.SIZES, schema.SCALING, MULTIPLIER, N_ASKED)),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    *CHOSEN_RATES,
    *(
        column
        for name, meaning in METRICS.items()
        for column in estimate_columns(name, f"{meaning}, mean over seeds. Empty if all diverged.")
    ),
    *estimate_columns(
        "kept",
        "Typical ratio (Hodges-Lehmann) of the weight on the wanted item to that at n_k keys. "
        "Empty if the run does not ask at n_k keys.",
    ),
    *estimate_columns(
        "loss_ratio",
        "Typical ratio (Hodges-Lehmann) of the loss to that of 1/√d_k with the same multiplier, "
        "fixed or learned. Empty if the run has no such rule.",
    ),
)


class Arm(NamedTuple):
    """One rule and multiplier: its rows at the chosen rates, and the rates."""

    rows: pd.DataFrame
    chosen: Chosen

    def at(self, n_asked: int) -> pd.DataFrame:
        """Return the rows at a number of keys, by seed."""
        return self.rows[self.rows["n_asked"] == n_asked].set_index("seed")


def arm_of(cells: pd.DataFrame, n_k: int) -> Arm:
    """Return the rows of one arm, each seed at the rate that the other half of the seeds chose."""
    # The smallest number of keys asked, where it is not that of training.
    shortest = n_k if (cells["n_asked"] == n_k).any() else cells["n_asked"].min()
    asked = cells[cells["n_asked"] == shortest]
    return Arm(*at_least_loss(cells, asked.assign(loss=asked["held_out_loss"])))


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of lengths.csv for a run's runs.csv."""
    sizes, scaled = [key.name for key in training.SIZES], scaled_rule(settings["scaling"])
    for at, frame in runs.groupby(sizes, sort=True):
        common = cast(tables.Row, dict(zip(sizes, at, strict=True)))
        n_k = int(common["n_k"])
        arms = {
            (str(scaling), str(multiplier)): arm_of(cells, n_k)
            for (scaling, multiplier), cells in frame.groupby(["scaling", "multiplier"], sort=True)
        }
        for (scaling, multiplier), arm in arms.items():
            # Like by like: a learned multiplier alone lowers the loss.
            measure = arms.get((scaled or "", multiplier))
            named: tables.Row = {"scaling": scaling, "multiplier": multiplier}
            for n_asked in sorted(set(frame["n_asked"])):
                row = common | named | _row(arm, measure, n_k, int(n_asked))
                yield {column.name: row.get(column.name, np.nan) for column in COLUMNS}


def _row(arm: Arm, measure: Arm | None, n_k: int, n_asked: int) -> tables.Row:
    there = arm.at(n_asked)
    row: tables.Row = {
        "n_asked": n_asked,
        "n_seeds": len(there),
        **arm.chosen.row,
    }
    for name in METRICS:
        row |= mean_row(name, there[name].dropna(), within=POSSIBLE[name])
    row |= ratio_row("kept", there["match_weight"], arm.at(n_k)["match_weight"])
    if measure is not None:
        row |= ratio_row("loss_ratio", there["held_out_loss"], measure.at(n_asked)["held_out_loss"])
    return row
