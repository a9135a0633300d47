"""Compute ladder.csv: steps to 90 % of every remedy at its best rate, beside 1/√d_k.

Rates are chosen and ratios bounded by the rules of `training.rates`: every seed is reported at the
learning rate that the other half of the seeds chose, ratios are computed seed by seed, and a run
that did not reach 90 % is known to be slower than the steps trained.

The learning-rate sensitivity is that of Wortsman et al. 2023 (arXiv 2309.14322): the expected loss
above that of the best rate, for rates spread evenly over the logarithms of the grid. They cap the
loss at its value at initialisation. Unscaled scores begin with a larger loss than scaled ones, so
that this would compare remedies by their starts; here the cap is the loss of equal weights, which
is that of a head that ignores its query.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.remedies.measure import REMEDY, Settings
from sqrtdk.experiments.training import crossfit, rates
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.training.crossfit import CHOSEN_RATES
from sqrtdk.schema import Column
from sqrtdk.stats.seed_columns import estimate_columns, mean_row
from sqrtdk.storage import tables

MEASURE = "on"
"""The remedy that the others are compared with."""

PROTOTYPE: Mapping[tuple[str, int], float] = {
    ("off", 64): 62, ("warmup", 64): 60, ("adamw", 64): 60, ("clipping", 64): 56,
    ("temperature", 64): 35, ("on", 64): 10.5, ("qk_norm_1", 64): 6.5, ("qk_norm_8", 64): 8,
    ("qk_norm_32", 64): 20,
    ("off", 1024): 244, ("warmup", 1024): 214, ("adamw", 1024): 260, ("clipping", 1024): 182,
    ("temperature", 1024): 79, ("on", 1024): 9.5, ("qk_norm_1", 1024): 5, ("qk_norm_8", 1024): 4,
    ("qk_norm_32", 1024): 9.5,
}  # fmt: skip
"""Median steps of an earlier prototype, by remedy and d_k: 4 seeds, the best of 5 rates, in code
that shares nothing with this project. Only these sizes and remedies were tried."""

_RATIO = f"Typical ratio of the steps to 90 % to those of {MEASURE} at the same d_k: "

COLUMNS = (
    *(schema.axis_column(key) for key in (*training.SIZES, REMEDY)),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    *rates.CROSSFIT_STEPS,
    Column(
        "prototype_steps",
        "Median steps of an earlier prototype of 4 seeds, at the best of 5 rates, in code of its "
        "own. Empty where it has none.",
        "steps",
        optional=True,
    ),
    *CHOSEN_RATES,
    Column("ratio_least", f"{_RATIO}the least that it can be.", optional=True),
    Column("ratio_most", f"{_RATIO}the most that it can be, or inf.", optional=True),
    Column("ratio_low", f"{_RATIO}lower end of its 95 % interval.", optional=True),
    Column("ratio_high", f"{_RATIO}upper end, or inf.", optional=True),
    *estimate_columns(
        "window",
        "Width of the window of learning rates at which a run ends at 90 % or more, as in "
        "rates.csv of `training`; mean over seeds.",
        "decades",
        optional=False,
    ),
    *estimate_columns(
        "sensitivity",
        "Learning-rate sensitivity: expected final loss above that of the best rate, for rates "
        "spread evenly over the logarithms of the grid, each loss at most that of equal weights; "
        "mean over seeds. The best rate is that of the least mean loss of the other half of the "
        "seeds.",
        optional=False,
    ),
    *estimate_columns(
        "sensitivity_gap",
        f"Sensitivity minus that of {MEASURE}, seed by seed; mean over seeds.",
        ends="gap",
    ),
)


class Arm(NamedTuple):
    """One remedy at one size: its steps by seed and its sensitivity by seed."""

    result: rates.RuleResult
    sensitivity: pd.Series


def equal_weights_loss(d_v: int, n_k: int) -> float:
    """Return the expected loss of weights 1/n_k: half of d_v (1 - 1/n_k).

    Values have independent entries of variance 1, of which the output misses (1 - 1/n_k)² for the
    wanted item and 1/n_k² for each of the n_k - 1 others.

    >>> equal_weights_loss(16, 16)
    7.5
    """
    return d_v * (1 - 1 / n_k) / 2


def losses(cells: pd.DataFrame, ceiling: float) -> np.ndarray:
    """Return final losses [n_seeds, n_rates], at most the ceiling, which a diverged run has."""
    found: np.ndarray = np.fmin(crossfit.matrix(cells, "held_out_loss", ceiling), ceiling)
    return found


def sensitivity(found: np.ndarray, grid: list[float]) -> np.ndarray:
    """Return the sensitivity of each seed from capped losses [n_seeds, n_rates].

    The expectation is the integral of the loss over the logarithm of the rate, by trapezoids.
    """
    rates_of_grid = sorted(set(grid))
    if len(rates_of_grid) == 1:
        return np.zeros(len(found))
    widths = np.diff(np.log(rates_of_grid))
    average = ((found[:, 1:] + found[:, :-1]) / 2) @ widths / np.sum(widths)
    chosen = crossfit.choose_least(found, rates_of_grid)
    gained: np.ndarray = average - found[np.arange(len(found)), chosen.places]
    return gained


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of ladder.csv for a run's runs.csv."""
    sizes, d_v = [key.name for key in training.SIZES], settings["d_v"]
    for at, frame in runs.groupby(sizes, sort=True):
        common = cast(tables.Row, dict(zip(sizes, at, strict=True)))
        ceiling = equal_weights_loss(d_v, int(common["n_k"]))
        found = {
            str(name): (rates.runs_of(cells), losses(cells, ceiling))
            for name, cells in frame.groupby("remedy", sort=True)
        }
        for row in rows_of(found, settings):
            key = str(row["remedy"]), int(common["d_k"])
            row["prototype_steps"] = PROTOTYPE.get(key, np.nan)
            yield {column.name: (common | row).get(column.name, np.nan) for column in COLUMNS}


def rows_of(
    found: Mapping[str, tuple[rates.Runs, np.ndarray]], settings: Settings
) -> Iterator[tables.Row]:
    """Yield the rows of all remedies of one size, from their runs and capped losses."""
    budget, grid = int(settings["steps"]), settings["learning_rate"]
    arms = {
        name: Arm(
            rates.result_of(runs, grid), pd.Series(sensitivity(capped, grid), index=runs.seeds)
        )
        for name, (runs, capped) in found.items()
    }
    measure = arms.get(MEASURE)
    for name, arm in arms.items():
        row: tables.Row = {
            "remedy": name,
            **arm.result.arm_row(budget),
            **mean_row("window", arm.result.windows, within=schema.NOT_NEGATIVE),
            **mean_row("sensitivity", arm.sensitivity),
        }
        if measure is not None:
            row |= rates.compare(arm.result.steps, measure.result.steps, budget)
            gap = arm.sensitivity - measure.sensitivity
            row |= mean_row("sensitivity_gap", gap, ends="gap")
        yield row
