"""Compute rates.csv: how fast each scale rule of `training` learns, at every rate and at its best.

A run that did not reach 90 % counts as infinitely slow in the median and in its interval, and is
never left out of an average. So a number of the table may be inf: more than the steps trained.

On the seeds that chose it, the best rate looks faster than it is, the more so the more rates are
about as good. The comparison of scale rules is therefore cross-fitted: the seeds are split into two
halves, each half chooses a rate, and each seed is reported at the rate that the other half chose.

If a run never reached 90 %, its ratio is only bounded, and the bound differs by seed. A ratio of 40
may well be above one that is only known to be at least 30. Every ratio and their typical value
therefore have a lower and an upper bound.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.training import crossfit
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.training.crossfit import Chosen
from sqrtdk.schema import Column
from sqrtdk.stats.intervals import median, median_interval, typical_ratio
from sqrtdk.stats.seed_columns import estimate_columns, mean_row
from sqrtdk.stats.series import scaled_rule
from sqrtdk.storage import tables

TASK = (*training.SIZES, training.OPTIMIZER, training.LOSS)
"""The axes that the scale rules of one comparison share."""


def _median_columns(
    name: str, meaning: str, ends: str, *, optional: bool = False
) -> tuple[Column, ...]:
    """Return the columns of a median of steps and of its interval."""
    return (
        Column(name, meaning, "steps", optional=optional),
        Column(
            f"{ends}_low",
            "Lower end of its 95 % interval, from order statistics. Empty below six seeds.",
            "steps",
            optional=True,
        ),
        Column(f"{ends}_high", "Upper end, or inf. Empty below six seeds.", "steps", optional=True),
    )


CROSSFIT_STEPS = (
    Column(
        "reached",
        "Number of seeds that reached 90 %, each at the learning rate that the other half of the "
        "seeds chose.",
        "seeds",
        read=int,
    ),
    Column("steps", "Steps trained, so that inf below means more than these.", "steps", read=int),
    *_median_columns(
        "crossfit_steps",
        "Median over these seeds of the steps to 90 %; inf where more than `steps`.",
        "crossfit",
    ),
)
"""Steps to 90 % at `CHOSEN_RATES`, for tables with a row for each arm."""

COLUMNS = (
    *(schema.axis_column(key) for key in (*TASK, schema.SCALING, training.LEARNING_RATE)),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    Column("reached", "Number of these seeds that reached 90 % accuracy.", "seeds", read=int),
    Column("diverged", "Number of these seeds that diverged.", "seeds", read=int),
    Column("steps", "Steps trained, so that inf below means more than these.", "steps", read=int),
    *_median_columns(
        "steps_to_90", "Median over seeds of the steps to 90 %; inf if more than `steps`.", "ci"
    ),
    Column(
        "final_accuracy",
        "Accuracy after the last step, mean over seeds; 0 for a run that diverged.",
        "share",
    ),
    Column(
        "best",
        "1 for the rule's best learning rate, 0 otherwise: the lowest median; if equal, the most "
        "seeds that reached it, then the highest final accuracy, then the lowest rate.",
        read=int,
    ),
    Column(
        "edge",
        "For a best rate: lowest or highest if it, or a rate of the next five columns, is at "
        "that end of the grid, so that a better one may lie beyond; only if the grid has no "
        "other. Empty elsewhere.",
        read=str,
        optional=True,
    ),
    Column(
        "rate_first",
        "For a best rate: the rate at which the first, third, ... seeds are reported in the "
        "columns after the next: the one that is best for the other seeds. Empty elsewhere.",
        optional=True,
    ),
    Column("rate_second", "The rate at which the other seeds are reported.", optional=True),
    *_median_columns(
        "crossfit_steps",
        "For a best rate: median over seeds of the steps to 90 %, each seed at the rate that the "
        "other half of the seeds chose; inf if more than `steps`. A single seed is reported at "
        "its own best rate.",
        "crossfit",
        optional=True,
    ),
    Column(
        "ratio_least",
        "For a best rate: steps to 90 % over those of the rule that divides by √d_k, seed by seed, "
        "each rule at the rate that the other half of the seeds chose; lower bound of the "
        "Hodges-Lehmann estimate, which is the median of the geometric means of all pairs of these "
        "ratios. It is the estimate itself if ratio_most is the same. The bounds differ if runs "
        "that did not reach 90 % within `steps` leave it open. Empty if the run has no such rule.",
        optional=True,
    ),
    Column("ratio_most", "Upper bound of the estimate, or inf.", optional=True),
    Column(
        "ratio_low",
        "Lower end of its 95 % interval, which inverts Wilcoxon's signed rank test, from the lower "
        "bounds of the ratios of the seeds. Empty below six seeds.",
        optional=True,
    ),
    Column(
        "ratio_high",
        "Upper end, from the upper bounds, or inf. Empty below six seeds.",
        optional=True,
    ),
    *estimate_columns(
        "window",
        "For a best rate: width of the window of learning rates at which a run ends, after "
        "`steps`, at 90 % or more; mean over seeds. A rate of the grid covers the decades from "
        "half way to the one below it to half way to the one above it.",
        "decades",
    ),
    Column(
        "window_edge",
        "For a best rate: 1 if some run ended at 90 % or more at the lowest or the highest "
        "rate of the grid, so that the window may be wider than shown, 0 otherwise. Else empty.",
        optional=True,
    ),
    *estimate_columns(
        "window_gap",
        "For a best rate: how much wider the window of the rule that divides by √d_k is, mean "
        "over seeds. Empty if the run has no such rule.",
        "decades",
        ends="gap",
    ),
)

Seeds = pd.Series
"""Steps to 90 % by seed, infinite if not reached."""


class Runs(NamedTuple):
    """The runs of one scale rule, with a row for each seed and a column for each learning rate.

    `steps` [n_seeds, n_rates] are the steps to 90 %, infinite if not reached; `accuracy` and
    `diverged` are those after the last step.
    """

    seeds: list[int]
    rates: list[float]
    steps: np.ndarray
    accuracy: np.ndarray
    diverged: np.ndarray

    def at(self, places: Sequence[int]) -> "Runs":
        """Return the runs of some seeds, given by their indices."""
        arrays = (array[list(places)] for array in self[2:])
        return Runs([self.seeds[place] for place in places], self.rates, *arrays)


def runs_of(cells: pd.DataFrame) -> Runs:
    """Return the runs of one scale rule from the rows after their last step."""
    seeds, rates = (sorted(set(cells[name])) for name in ("seed", "learning_rate"))
    return Runs(
        seeds,
        rates,
        crossfit.matrix(cells, "steps_to_90", np.inf),
        crossfit.matrix(cells, "accuracy", 0.0),
        crossfit.matrix(cells, "diverged", 0.0),
    )


class RuleResult(NamedTuple):
    """One scale rule of a comparison, by seed.

    `steps` are the steps to 90 %, each seed at the `chosen` rate of the other half of the seeds.
    `windows` are the decades of learning rates at which the seed ends above 90 %, and `open` is
    whether some windows reach an end of the grid.
    """

    steps: Seeds
    chosen: Chosen
    windows: Seeds
    open: bool

    @property
    def median_row(self) -> tables.Row:
        """Return the median of the steps, its interval and the rates, as columns of a row."""
        steps = self.steps.to_numpy(dtype=float)
        low, high = median_interval(steps)
        return {
            "crossfit_steps": median(steps),
            "crossfit_low": low,
            "crossfit_high": high,
            **self.chosen.row,
        }

    def arm_row(self, budget: int) -> tables.Row:
        """Return the columns of a table with a row for each arm, after `budget` steps."""
        reached = int(np.isfinite(self.steps.to_numpy(dtype=float)).sum())
        counts: tables.Row = {"n_seeds": len(self.steps), "reached": reached, "steps": budget}
        return counts | self.median_row


def rows(settings: training.Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of rates.csv for a run's runs.csv, in the order of the axes."""
    task, budget = [key.name for key in TASK], int(settings["steps"])
    for at, frame in runs[runs["step"] == budget].groupby(task, sort=True):
        found = {str(name): runs_of(part) for name, part in frame.groupby("scaling", sort=True)}
        common = cast(tables.Row, dict(zip(task, at, strict=True)))
        for row in rows_of(found, settings):
            yield {column.name: (common | row).get(column.name, np.nan) for column in COLUMNS}


def rows_of(found: Mapping[str, Runs], settings: training.Settings) -> Iterator[tables.Row]:
    """Yield the rows of one comparison, without the axes that its scale rules share."""
    grid, budget = settings["learning_rate"], int(settings["steps"])
    results = {name: result_of(one, grid) for name, one in found.items()}
    scaled = results.get(scaled_rule(settings["scaling"]) or "")
    for name, one in found.items():
        best = choose(one)
        for place, rate in enumerate(one.rates):
            row: tables.Row = {
                "scaling": name,
                "learning_rate": rate,
                **_measured(one, place),
                "steps": budget,
                "best": int(place == best),
                "edge": "",
            }
            if row["best"]:
                row |= _reported(results[name], scaled, budget)
                row["edge"] = crossfit.edge((rate, *results[name].chosen.rates), grid)
            yield row


def result_of(runs: Runs, grid: Sequence[float]) -> RuleResult:
    """Return one scale rule of a comparison."""
    chosen = choose_by_halves(runs)
    works = runs.accuracy >= training.LEARNT_ACCURACY
    widths = dict(zip(sorted(set(grid)), decades(grid), strict=True))
    windows = works @ np.array([widths[rate] for rate in runs.rates])
    ends = [place for place, rate in enumerate(runs.rates) if rate in (min(grid), max(grid))]
    return RuleResult(
        pd.Series(runs.steps[np.arange(len(runs.seeds)), chosen.places], runs.seeds),
        chosen,
        pd.Series(windows, runs.seeds),
        bool(works[:, ends].any()),
    )


def choose_by_halves(runs: Runs) -> Chosen:
    """Return the rates at which seeds are reported, each best for the other half of them."""
    return crossfit.choose(len(runs.seeds), runs.rates, lambda places: choose(runs.at(places)))


def choose(runs: Runs) -> int:
    """Return the index of the learning rate that is best for these seeds: see column `best`."""

    def rank(place: int) -> tuple[float, int, float]:
        steps = runs.steps[:, place]
        return median(steps), -int(np.isfinite(steps).sum()), -float(runs.accuracy[:, place].mean())

    return min(range(len(runs.rates)), key=rank)


def decades(grid: Sequence[float]) -> list[float]:
    """Return the width in decades that each rate of the grid represents, in rising order.

    >>> [round(width, 3) for width in decades([0.01, 0.1, 10.0])]
    [0.5, 1.5, 1.0]
    """
    logs = np.log10(sorted(set(grid)))
    borders = np.concatenate([logs[:1], (logs[1:] + logs[:-1]) / 2, logs[-1:]])
    return [float(width) for width in np.diff(borders)]


def _measured(runs: Runs, place: int) -> tables.Row:
    """Return the columns of one scale rule at one rate."""
    steps = runs.steps[:, place]
    low, high = median_interval(steps)
    return {
        "n_seeds": len(steps),
        "reached": int(np.isfinite(steps).sum()),
        "diverged": int(runs.diverged[:, place].sum()),
        "steps_to_90": median(steps),
        "ci_low": low,
        "ci_high": high,
        "final_accuracy": float(runs.accuracy[:, place].mean()),
    }


def _reported(result: RuleResult, scaled: RuleResult | None, budget: int) -> tables.Row:
    """Return the cross-fitted columns, compared with the rule that divides by √d_k."""
    row = {
        **result.median_row,
        **mean_row("window", result.windows, within=schema.NOT_NEGATIVE),
        "window_edge": float(result.open),
    }
    if scaled is None:
        return row
    gap = (scaled.windows - result.windows).dropna()
    row |= compare(result.steps, scaled.steps, budget)
    return row | mean_row("window_gap", gap, ends="gap")


def compare(seeds: Seeds, scaled: Seeds, budget: int) -> tables.Row:
    """Return bounds of the typical ratio of two rules' steps, paired by seed, and of its interval.

    `budget` is the number of steps trained, the lower bound of an infinite entry.
    """
    pair = pd.concat([seeds, scaled], axis=1, join="inner").to_numpy(dtype=float)
    least, most = np.minimum(pair, budget), pair
    with np.errstate(divide="ignore", invalid="ignore"):
        lows, highs = least[:, 0] / most[:, 1], most[:, 0] / least[:, 1]
    # 0/0: both start above 90 %, so the ratio may be anything.
    lows = np.where(np.isnan(lows), 0.0, lows)
    highs = np.where(np.isnan(highs), np.inf, highs)
    least_ratio, most_ratio = typical_ratio(lows), typical_ratio(highs)
    return {
        "ratio_least": least_ratio.mean,
        "ratio_most": most_ratio.mean,
        "ratio_low": least_ratio.low,
        "ratio_high": most_ratio.high,
    }
