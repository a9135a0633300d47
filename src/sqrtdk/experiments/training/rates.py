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
from sqrtdk.experiments.training import measure as training
from sqrtdk.schema import Column
from sqrtdk.stats.intervals import interval, median, median_interval, typical_ratio
from sqrtdk.stats.series import scaled_rule
from sqrtdk.storage import tables

TASK = (schema.D_K, schema.N_K, training.BATCH_SIZE, training.OPTIMIZER, training.LOSS)
"""The axes that the scale rules of one comparison share."""

CHOSEN_RATES = (
    Column("rate_first", "Learning rate of the first, third, ... seeds, chosen by the others."),
    Column("rate_second", "Learning rate of the other seeds."),
    Column(
        "edge",
        "lowest or highest where one of the two rates is at that end of the grid; only where the "
        "grid has no other. Empty elsewhere.",
        read=str,
        optional=True,
    ),
)
"""The rates at which an arm is reported, each half of the seeds at the rate of the other half."""

CROSSFIT_STEPS = (
    Column(
        "reached",
        "Number of seeds that reached 90 %, each at the learning rate that the other half of the "
        "seeds chose.",
        "seeds",
        read=int,
    ),
    Column("steps", "Steps trained, so that inf below means more than these.", "steps", read=int),
    Column(
        "crossfit_steps",
        "Median over these seeds of the steps to 90 %; inf where more than `steps`.",
        "steps",
    ),
    Column(
        "crossfit_low",
        "Lower end of its 95 % interval, by order statistics. Empty below six seeds.",
        "steps",
        optional=True,
    ),
    Column("crossfit_high", "Upper end, or inf. Empty below six seeds.", "steps", optional=True),
)
"""Steps to 90 % at these rates, for tables with a row for each arm."""

COLUMNS = (
    *(schema.axis_column(key) for key in (*TASK, schema.SCALING, training.LEARNING_RATE)),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    Column("reached", "Number of these seeds that reached 90 % accuracy.", "seeds", read=int),
    Column("diverged", "Number of these seeds that diverged.", "seeds", read=int),
    Column("steps", "Steps trained, so that inf below means more than these.", "steps", read=int),
    Column(
        "steps_to_90",
        "Median over seeds of the steps to 90 %; inf if more than `steps`.",
        "steps",
    ),
    Column(
        "ci_low",
        "Lower end of its 95 % interval, from order statistics. Empty below six seeds.",
        "steps",
        optional=True,
    ),
    Column("ci_high", "Upper end, or inf. Empty below six seeds.", "steps", optional=True),
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
    Column(
        "crossfit_steps",
        "For a best rate: median over seeds of the steps to 90 %, each seed at the rate that the "
        "other half of the seeds chose; inf if more than `steps`. A single seed is reported at "
        "its own best rate.",
        "steps",
        optional=True,
    ),
    Column(
        "crossfit_low",
        "Lower end of its 95 % interval, from order statistics. Empty below six seeds.",
        "steps",
        optional=True,
    ),
    Column("crossfit_high", "Upper end, or inf. Empty below six seeds.", "steps", optional=True),
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
    Column(
        "window",
        "For a best rate: width of the window of learning rates at which a run ends, after "
        "`steps`, at 90 % or more; mean over seeds. A rate of the grid covers the decades from "
        "half way to the one below it to half way to the one above it.",
        "decades",
        optional=True,
    ),
    Column("window_low", "Lower end of its 95 % interval.", "decades", optional=True),
    Column("window_high", "Upper end of its 95 % interval.", "decades", optional=True),
    Column(
        "window_edge",
        "For a best rate: 1 if some run ended at 90 % or more at the lowest or the highest "
        "rate of the grid, so that the window may be wider than shown, 0 otherwise. Else empty.",
        optional=True,
    ),
    Column(
        "window_gap",
        "For a best rate: how much wider the window of the rule that divides by √d_k is, mean "
        "over seeds. Empty if the run has no such rule.",
        "decades",
        optional=True,
    ),
    Column("gap_low", "Lower end of its 95 % interval.", "decades", optional=True),
    Column("gap_high", "Upper end of its 95 % interval.", "decades", optional=True),
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

    def matrix(name: str, empty: float) -> np.ndarray:
        table = cells.pivot_table(
            index="seed", columns="learning_rate", values=name, dropna=False, sort=True
        )
        return table.to_numpy(dtype=float, na_value=empty)

    seeds, rates = (sorted(set(cells[name])) for name in ("seed", "learning_rate"))
    return Runs(
        seeds,
        rates,
        matrix("steps_to_90", np.inf),
        matrix("accuracy", 0.0),
        matrix("diverged", 0.0),
    )


class RuleResult(NamedTuple):
    """One scale rule of a comparison, by seed.

    `steps` are the steps to 90 %, each seed at the rate that the other half of the seeds chose.
    `rates` are the two rates, of the first half and of the second. `windows` are the decades of
    learning rates at which the seed ends above 90 %, and `open` is whether some windows reach an
    end of the grid.
    """

    steps: Seeds
    rates: tuple[float, float]
    windows: Seeds
    open: bool


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
                row["edge"] = edge((rate, *results[name].rates), grid)
                row |= _reported(results[name], scaled, budget)
            yield row


def result_of(runs: Runs, grid: Sequence[float]) -> RuleResult:
    """Return one scale rule of a comparison."""
    places = crossfit(runs)
    works = runs.accuracy >= training.LEARNT_ACCURACY
    widths = dict(zip(sorted(set(grid)), decades(grid), strict=True))
    windows = works @ np.array([widths[rate] for rate in runs.rates])
    ends = [place for place, rate in enumerate(runs.rates) if rate in (min(grid), max(grid))]
    return RuleResult(
        pd.Series(runs.steps[np.arange(len(places)), places], runs.seeds),
        (runs.rates[places[0]], runs.rates[places[min(1, len(places) - 1)]]),
        pd.Series(windows, runs.seeds),
        bool(works[:, ends].any()),
    )


def crossfit(runs: Runs) -> np.ndarray:
    """Return, for each seed, the index of the rate that the other half of the seeds chose.

    The halves are every other seed. A single seed chooses its own rate.
    """
    seeds = range(len(runs.seeds))
    first, second = seeds[::2], seeds[1::2]
    places = np.empty(len(seeds), dtype=int)
    for own, other in ((first, second), (second, first)):
        places[list(own)] = choose(runs.at(other or own))
    return places


def choose(runs: Runs) -> int:
    """Return the index of the learning rate that is best for these seeds: see column `best`."""

    def rank(place: int) -> tuple[float, int, float]:
        steps = runs.steps[:, place]
        return median(steps), -int(np.isfinite(steps).sum()), -float(runs.accuracy[:, place].mean())

    return min(range(len(runs.rates)), key=rank)


def edge(chosen: Sequence[float], grid: Sequence[float]) -> str:
    """Return which end of the grid one of the rates is at; empty if none is."""
    lowest, highest = (end in chosen for end in (min(grid), max(grid)))
    if len(set(grid)) == 1:
        return "only"
    return "lowest" if lowest else "highest" if highest else ""


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
    low, high = median_interval(result.steps.to_numpy(dtype=float))
    row = {
        "rate_first": result.rates[0],
        "rate_second": result.rates[1],
        "crossfit_steps": median(result.steps.to_numpy(dtype=float)),
        "crossfit_low": low,
        "crossfit_high": high,
        **_mean("window", "window", result.windows),
        "window_edge": float(result.open),
    }
    if scaled is None:
        return row
    gap = (scaled.windows - result.windows).dropna()
    return row | compare(result.steps, scaled.steps, budget) | _mean("window_gap", "gap", gap)


def _mean(name: str, ends: str, seeds: Seeds) -> tables.Row:
    values = seeds.to_numpy(dtype=float)
    low, high = interval(values)
    return {name: float(np.mean(values)), f"{ends}_low": low, f"{ends}_high": high}


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
