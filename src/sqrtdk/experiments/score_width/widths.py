"""Compute widths.csv: how fast each kind of attention of `score_width` learns at each score width.

A reader is compared with itself at the smallest d_k and with scaled dot attention at the same d_k,
with the rules of `training.rates`: every seed is reported at the learning rate that the other half
of the seeds chose, ratios are computed seed by seed, and a run that did not reach 90 % is known to
be slower than the steps trained.
"""

from collections.abc import Iterator, Mapping
from typing import cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.encoder_decoder.measure import D_K, HIDDEN, LENGTH, READER
from sqrtdk.experiments.training import rates
from sqrtdk.experiments.training.crossfit import CHOSEN_RATES
from sqrtdk.experiments.training.measure import Settings
from sqrtdk.schema import Column
from sqrtdk.storage import tables

MEASURE = "scaled_dot"
"""The reader that the others are compared with."""

_OWN = "Typical ratio of the steps to 90 % to those of the same reader at the smallest d_k: "
_OTHER = f"Typical ratio of the steps to 90 % to those of {MEASURE} at the same d_k: "
_NONE = f"Empty where the run has no {MEASURE}."

COLUMNS = (
    *(schema.axis_column(key) for key in (LENGTH, HIDDEN, READER, D_K)),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    *rates.CROSSFIT_STEPS,
    Column("accuracy", "Accuracy after the last step, mean over these seeds.", "share"),
    *CHOSEN_RATES,
    Column("own_least", f"{_OWN}the least that it can be.", optional=True),
    Column("own_most", f"{_OWN}the most that it can be, or inf.", optional=True),
    Column("own_low", f"{_OWN}lower end of its 95 % interval.", optional=True),
    Column("own_high", f"{_OWN}upper end, or inf.", optional=True),
    Column("scaled_least", f"{_OTHER}the least that it can be. {_NONE}", optional=True),
    Column("scaled_most", f"{_OTHER}the most that it can be, or inf.", optional=True),
    Column("scaled_low", f"{_OTHER}lower end of its 95 % interval.", optional=True),
    Column("scaled_high", f"{_OTHER}upper end, or inf.", optional=True),
)


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of widths.csv for a run's runs.csv; the fixed vector has no score width."""
    ends = runs[(runs["step"] == int(settings["steps"])) & (runs["reader"] != "fixed")]
    ends = ends.assign(diverged=0.0)
    for (length, hidden), frame in ends.groupby(["length", "hidden"], sort=True):
        found = {
            (str(reader), int(str(d_k))): rates.runs_of(cells)
            for (reader, d_k), cells in frame.groupby(["reader", "d_k"], sort=True)
        }
        for row in rows_of(found, settings):
            at = cast(tables.Row, {"length": length, "hidden": hidden}) | row
            yield {column.name: at.get(column.name, np.nan) for column in COLUMNS}


def rows_of(
    found: Mapping[tuple[str, int], rates.Runs], settings: Settings
) -> Iterator[tables.Row]:
    """Yield the rows of the runs of each reader and d_k, at one length and state size."""
    budget, grid = int(settings["steps"]), settings["learning_rate"]
    arms = {at: rates.result_of(one, grid) for at, one in found.items()}
    smallest = min(d_k for _, d_k in arms)
    for (reader, d_k), arm in arms.items():
        accuracy = found[reader, d_k].accuracy[np.arange(len(arm.steps)), arm.chosen.places]
        yield {
            "reader": reader,
            "d_k": d_k,
            **arm.arm_row(budget),
            "accuracy": float(accuracy.mean()),
            **_ratio("own", arm, arms.get((reader, smallest)), budget),
            **_ratio("scaled", arm, arms.get((MEASURE, d_k)), budget),
        }


def _ratio(
    name: str, arm: rates.RuleResult, other: rates.RuleResult | None, budget: int
) -> tables.Row:
    if other is None:
        return {}
    found = rates.compare(arm.steps, other.steps, budget)
    return {key.replace("ratio", name): value for key, value in found.items()}
