"""rates.csv: how fast each arm of `training` learns at every learning rate, and at its best one.

A run that did not reach 90 % counts as infinitely slow, in the median and in its interval, and is
never left out of an average. So a number of the table may be inf: more than the steps trained.

A ratio of two runs is not so simple: of one that did not get there only a bound is known, by the
steps trained, and another one for each seed. A ratio of 40 may well be above one that is only
known to be at least 30. So the ratios have a lower and an upper bound each, and their median too.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sqrtdk import commands, config, keys, summary, tables
from sqrtdk.estimates import median_interval
from sqrtdk.experiments import training
from sqrtdk.keys import Column
from sqrtdk.series import scaled_arm

TASK = (keys.D_K, keys.N_K, training.BATCH_SIZE, training.OPTIMIZER, training.LOSS)
"""What the arms of one comparison have in common."""

COLUMNS = (
    *(keys.axis_column(key) for key in (*TASK, keys.SCALING, training.LEARNING_RATE)),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    Column("reached", "Of them, those that reached 90 % accuracy.", "seeds", read=int),
    Column("steps", "Steps trained, so that inf below means more than these.", "steps", read=int),
    Column(
        "steps_to_90",
        "Median over seeds of the steps to 90 %; inf where more than `steps`.",
        "steps",
    ),
    Column(
        "ci_low",
        "Lower end of its 95 % interval, by order statistics. Empty below six seeds.",
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
        "1 for the arm's best learning rate, else 0: the lowest median; among equal ones the most "
        "seeds that reached it, then the highest final accuracy, then the lowest rate.",
        read=int,
    ),
    Column(
        "edge",
        "Of a best rate: lowest or highest where it is at that end of the grid, so that a better "
        "one may lie beyond; only where the grid has no other. Empty elsewhere.",
        read=str,
        optional=True,
    ),
    Column(
        "ratio_least",
        "Of a best rate: steps to 90 % over those of the arm that divides by √d_k at its own best "
        "rate, seed by seed; the least that their median can be. It is the median itself where "
        "ratio_most is the same; it is less where runs that did not get there, and took more than "
        "`steps`, leave it open. Empty where the run has no such arm.",
        optional=True,
    ),
    Column("ratio_most", "The most that their median can be, or inf.", optional=True),
    Column(
        "ratio_low",
        "Lower end of the median's 95 % interval, by order statistics of the least that each "
        "seed's ratio can be. Empty below six seeds.",
        optional=True,
    ),
    Column(
        "ratio_high",
        "Upper end, by the most that each can be, or inf. Empty below six seeds.",
        optional=True,
    ),
)

Seeds = pd.Series
"""Steps to 90 % by seed, infinite where not reached."""


def rows(settings: Mapping[str, Any], runs: pd.DataFrame) -> Iterator[tables.Row]:
    """The rows of rates.csv of a run's runs.csv, in the order of the axes."""
    task, budget = [key.name for key in TASK], int(settings["steps"])
    ends = runs[runs["step"] == budget]
    ends = ends.assign(
        steps_to_90=ends["steps_to_90"].fillna(np.inf), accuracy=ends["accuracy"].fillna(0.0)
    )
    for at, frame in ends.groupby(task, sort=True):
        found: list[tables.Row] = []
        fastest: dict[str, tuple[tables.Row, Seeds]] = {}
        for arm, cells in frame.groupby(["scaling", "learning_rate"], sort=True):
            scaling, rate = str(arm[0]), float(str(arm[1]))
            seeds = cells.set_index("seed")["steps_to_90"]
            row: tables.Row = {
                **dict(zip(task, at, strict=True)),
                "scaling": scaling,
                "learning_rate": rate,
                **_measured(seeds),
                "steps": budget,
                "final_accuracy": float(cells["accuracy"].mean()),
            }
            found.append(row)
            if scaling not in fastest or _rank(row) < _rank(fastest[scaling][0]):
                fastest[scaling] = row, seeds
        _, scaled = fastest.get(scaled_arm(settings["scaling"]) or "", (None, None))
        for row in found:
            best, seeds = fastest[row["scaling"]]
            if row is best:
                edge = _edge(row["learning_rate"], settings["learning_rate"])
                yield row | {"best": 1, "edge": edge} | compare(seeds, scaled, budget)
            else:
                yield row | {"best": 0, "edge": ""} | compare(seeds, None, budget)


def _measured(seeds: Seeds) -> tables.Row:
    values = seeds.to_numpy(dtype=float)
    low, high = median_interval(values)
    return {
        "n_seeds": len(values),
        "reached": int(np.isfinite(values).sum()),
        "steps_to_90": _median(values),
        "ci_low": low,
        "ci_high": high,
    }


def _rank(row: tables.Row) -> tuple[float, int, float, float]:
    """The faster, the smaller."""
    return row["steps_to_90"], -row["reached"], -row["final_accuracy"], row["learning_rate"]


def _edge(rate: float, grid: Sequence[float]) -> str:
    lowest, highest = rate == min(grid), rate == max(grid)
    return ("only" if highest else "lowest") if lowest else "highest" if highest else ""


def compare(seeds: Seeds, scaled: Seeds | None, budget: int) -> tables.Row:
    """Bounds of the median ratio of two arms' steps, paired by seed, and of its interval.

    `budget` is the steps trained: what an infinite entry is known to be above.
    """
    if scaled is None:
        return dict.fromkeys(("ratio_least", "ratio_most", "ratio_low", "ratio_high"), np.nan)
    pair = pd.concat([seeds, scaled], axis=1, join="inner").to_numpy(dtype=float)
    least, most = np.minimum(pair, budget), pair
    with np.errstate(divide="ignore", invalid="ignore"):
        lows, highs = least[:, 0] / most[:, 1], most[:, 0] / least[:, 1]
    # 0/0: both were there at once, and it may be anything.
    lows = np.where(np.isnan(lows), 0.0, lows)
    highs = np.where(np.isnan(highs), np.inf, highs)
    return {
        "ratio_least": _median(lows),
        "ratio_most": _median(highs),
        "ratio_low": median_interval(lows)[0],
        "ratio_high": median_interval(highs)[1],
    }


def _median(values: np.ndarray) -> float:
    # Not np.median, which makes NaN of two infinities.
    ordered, half = np.sort(values), len(values) // 2
    middle = ordered[[half if len(values) % 2 else half - 1, half]]
    return float(middle[0] if middle[0] == middle[1] else middle.mean())


def main() -> None:
    """Write rates.csv (third) of the run whose config is first, by its runs.csv (second)."""
    settings = config.load(Path(sys.argv[1])).of("training")
    runs = summary.read(Path(sys.argv[2]), training.COLUMNS)
    tables.write_guarded(Path(sys.argv[3]), tables.text(rows(settings, runs), COLUMNS))


if __name__ == "__main__":
    commands.run(main, "CONFIG", "RUNS.csv", "RATES.csv")
