"""Tables of a tiny run of `training`, computed by the code itself without the workflow."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pandas as pd

from sqrtdk.config import compose
from sqrtdk.experiments import cells
from sqrtdk.experiments.training import equivalence, rates
from sqrtdk.experiments.training import measure as training
from sqrtdk.stats import summary
from sqrtdk.storage import planning

SCHEMAS = {
    "runs": training.COLUMNS,
    "summary": summary.columns(training.COLUMNS),
    "rates": rates.COLUMNS,
    "twins": equivalence.COLUMNS,
}
TINY = {"d_k": "[16,64]", "steps": "20", "learning_rate": "[0.01,0.1]", "seeds": "2"}


def settings(*overrides: str) -> dict[str, Any]:
    """Return the settings of the tiny grid, or of another grid given by overrides."""
    given = TINY | dict(override.split("=", 1) for override in overrides)
    words = [f"{key}={value}" for key, value in given.items()]
    run = compose.compose(["grid=smoke", "experiments=training", *words], {})
    return run.settings["training"]


def frame(rows: Any, name: str) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[column.name for column in SCHEMAS[name]])


def runs_of(found: Mapping[str, Any]) -> pd.DataFrame:
    """Return the runs.csv of settings with seeds from 0 on."""
    rows = []
    for slab in planning.slabs(found, training.BATCHED_AXES):
        seeds = {"seeds": [0, len(found["seed"])]}
        rows += cells.measure_cells(training.cells(slab | seeds), training.COLUMNS)
    return frame(rows, "runs")


@cache
def tables(*overrides: str) -> dict[str, pd.DataFrame]:
    """Return all tables of a tiny grid. Read them, never change them."""
    found = settings(*overrides)
    runs = runs_of(found)
    best = frame(rates.rows(found, runs), "rates")
    return {
        "runs": runs,
        "summary": frame(summary.summarize(runs, training.COLUMNS, {}), "summary"),
        "rates": best,
        "twins": frame(equivalence.rows(found, best), "twins"),
    }
