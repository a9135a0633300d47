"""Compute sinks.csv: losses and weights of every kind of attention at its best learning rate.

The best rate has the least loss over all held-out queries. Half of the seeds choose it, and the
other half are reported at it, and vice versa, as in `training.crossfit`. Ratios of losses are
computed seed by seed.
"""

from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.sinks import measure as measured
from sqrtdk.experiments.sinks.measure import ATTENTION, FIRST_KEY, Settings
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.training.crossfit import CHOSEN_RATES, Chosen, at_least_loss
from sqrtdk.schema import Column
from sqrtdk.stats.seed_columns import estimate_columns, mean_row, ratio_row
from sqrtdk.storage import tables

METRICS = {
    "loss_matched": "Loss of queries with a match",
    "loss_unmatched": "Loss of queries without a match",
    "item_weight_matched": "Sum of the weights on items, with a match",
    "item_weight_unmatched": "Sum of the weights on items, without a match",
    "max_weight_unmatched": "Largest weight on an item, without a match",
    "first_weight_matched": "Weight on the first key, with a match",
    "first_weight_unmatched": "Weight on the first key, without a match",
    "sink_weight_matched": "Weight on the sink logit, with a match",
    "sink_weight_unmatched": "Weight on the sink logit, without a match",
    "first_value_rms": "Root mean square of the entries of the first key's value",
    "best_matched": "Loss of the best possible output, with a match",
    "best_unmatched": "Loss of the best possible output, without a match",
    "accuracy": "Share of matched queries whose largest weight on an item is on theirs",
}

POSSIBLE = {column.name: column.possible for column in measured.COLUMNS}
"""The values that each metric can have."""

_OTHER = (
    "Typical ratio (Hodges-Lehmann) of the loss of unmatched queries to that of the same attention "
    "with the other kind of first key."
)
_SINK = (
    "Typical ratio of the loss of unmatched queries to that of sink_logit with the same kind of "
    "first key."
)


COLUMNS = (
    *(schema.axis_column(key) for key in (*training.SIZES, ATTENTION, FIRST_KEY)),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    *CHOSEN_RATES,
    *(
        column
        for name, meaning in METRICS.items()
        for column in estimate_columns(
            name, f"{meaning}, mean over seeds. Empty where it is undefined."
        )
    ),
    *estimate_columns("other_ratio", _OTHER),
    *estimate_columns("sink_ratio", _SINK),
)


class Arm(NamedTuple):
    """One kind of attention and first key: its rows at the chosen rates, by seed, and the rates."""

    rows: pd.DataFrame
    chosen: Chosen


def arm_of(cells: pd.DataFrame) -> Arm:
    """Return the rows of one arm, each seed at the rate that the other half of the seeds chose."""
    losses = cells.assign(loss=(cells["loss_matched"] + cells["loss_unmatched"]) / 2)
    rows, chosen = at_least_loss(cells, losses)
    return Arm(rows.set_index("seed"), chosen)


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of sinks.csv for a run's runs.csv."""
    sizes = [key.name for key in training.SIZES]
    for at, frame in runs.groupby(sizes, sort=True):
        common = cast(tables.Row, dict(zip(sizes, at, strict=True)))
        arms = {
            (str(attention), str(first)): arm_of(cells)
            for (attention, first), cells in frame.groupby(["attention", "first_key"], sort=True)
        }
        for (attention, first), arm in arms.items():
            row: tables.Row = {
                "attention": attention,
                "first_key": first,
                "n_seeds": len(arm.rows),
                **arm.chosen.row,
            }
            for name in METRICS:
                row |= mean_row(name, arm.rows[name].dropna(), within=POSSIBLE[name])
            others = {
                "other_ratio": (attention, "none" if first == "learned" else "learned"),
                "sink_ratio": ("sink_logit", first),
            }
            for name, than in others.items():
                if than in arms:
                    losses = (one.rows["loss_unmatched"] for one in (arm, arms[than]))
                    row |= ratio_row(name, *losses)
            yield {column.name: (common | row).get(column.name, np.nan) for column in COLUMNS}
