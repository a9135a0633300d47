"""Compute instability.csv: whether the largest logit of small heads predicts where large ones fail.

This is the prediction of Wortsman et al. 2023 (arXiv 2309.14322), with d_k for the size of the
model. A run is unstable if it ends with a loss above that of equal weights. The threshold is the
logit that best separates stable from unstable runs at all d_k but the largest, over all remedies
and rates. For each rate, a line through ln(largest logit) over ln(d_k) of the smaller heads is
extended to the largest d_k. The predicted limit is the rate at which these logits cross the
threshold; the measured one is half-way, in logarithms, between the last stable rate and the first
unstable one. Both are computed seed by seed.
"""

from collections.abc import Iterator
from typing import cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.remedies.ladder import equal_weights_loss
from sqrtdk.experiments.remedies.measure import REMEDY, Settings
from sqrtdk.experiments.training import crossfit
from sqrtdk.experiments.training import measure as training
from sqrtdk.schema import Column
from sqrtdk.stats.seed_columns import estimate_columns, mean_row
from sqrtdk.storage import tables

FEWEST_SIZES = 3
"""Sizes that a prediction needs: two for the line, and the one that is predicted."""

SIZES = (schema.N_K, training.BATCH_SIZE)

COLUMNS = (
    *(schema.axis_column(key) for key in (*SIZES, REMEDY, schema.D_K)),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    Column(
        "threshold",
        "Largest logit that best separates stable from unstable runs at smaller d_k, over all "
        "remedies and rates of the run.",
    ),
    Column(
        "separated",
        "Share of these runs on the right side of the threshold.",
        "share",
    ),
    Column(
        "limit",
        "Learning rate from which on runs are unstable at this d_k, geometric mean over the seeds "
        "that have both limits. Empty if none has.",
        optional=True,
    ),
    Column("predicted_limit", "The same, predicted from the smaller d_k.", optional=True),
    Column(
        "judged",
        "Seeds with both limits between the ends of the grid.",
        "seeds",
        read=int,
    ),
    Column(
        "agree_stable",
        "Seeds without a limit on the grid, as predicted.",
        "seeds",
        read=int,
    ),
    Column(
        "missed",
        "Seeds of which only one of the two limits is on the grid.",
        "seeds",
        read=int,
    ),
    *estimate_columns(
        "gap",
        "Predicted over measured limit, mean of the decimal logarithm over the judged seeds.",
        "decades",
    ),
    Column(
        "gap_same",
        "The limit at the second largest d_k over the measured one, in the same way: the "
        "prediction that nothing changes with d_k.",
        "decades",
        optional=True,
    ),
)


class Grid:
    """Largest logits and failures of one remedy at one d_k, [n_seeds, n_rates]."""

    def __init__(self, cells: pd.DataFrame, ceiling: float) -> None:
        self.rates = np.array(sorted(set(cells["learning_rate"])))
        logits = crossfit.matrix(cells, "max_logit")
        # The logits of a run that diverged are beyond any number.
        self.logs = np.log(np.where(np.isnan(logits), np.finfo(float).max, np.fmax(logits, 1e-3)))
        self.failed = ~(crossfit.matrix(cells, "held_out_loss") <= ceiling)


def threshold(grids: list[Grid]) -> tuple[float, float]:
    """Return the logarithm of the logit that separates best, and the share it puts right.

    Among equally good ones the middle of the first gap is taken.
    """
    logs = np.concatenate([grid.logs.ravel() for grid in grids])
    failed = np.concatenate([grid.failed.ravel() for grid in grids])
    order = np.argsort(logs, kind="stable")
    logs, failed = logs[order], failed[order]
    # Right are stable runs below and failed ones above; it is before each run, or after all.
    below = np.concatenate([[0], np.cumsum(~failed)])
    right = below + (np.sum(failed) - np.concatenate([[0], np.cumsum(failed)]))
    place = int(np.argmax(right))
    around = logs[max(place - 1, 0) : place + 1]
    return float(np.mean(around)), float(right[place] / len(logs))


def limit(values: np.ndarray, level: float, rates: np.ndarray) -> float:
    """Return ln(rate) at which values, in the order of rates, cross a level for good.

    inf if the last value is below it, -inf if all are above.
    """
    above = values > level
    if not above[-1]:
        return np.inf
    first = len(above) - int(np.argmin(above[::-1])) if not above.all() else 0
    if first == 0:
        return -np.inf
    x, y = np.log(rates[first - 1 : first + 1]), values[first - 1 : first + 1]
    return float(x[0] + (x[1] - x[0]) * (level - y[0]) / (y[1] - y[0]))


def extended(grids: list[Grid], sizes: list[int], at: int) -> np.ndarray:
    """Return ln(largest logit) [n_seeds, n_rates] at a d_k, from lines over ln d_k."""
    logs = np.stack([grid.logs for grid in grids])
    x = np.log(sizes) - np.mean(np.log(sizes))
    slope = np.tensordot(x, logs, axes=1) / float(x @ x)
    found: np.ndarray = logs.mean(axis=0) + slope * (np.log(at) - np.mean(np.log(sizes)))
    return found


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of instability.csv: the largest d_k of each remedy."""
    axes = [key.name for key in SIZES]
    for at, frame in runs.groupby(axes, sort=True):
        common = cast(tables.Row, dict(zip(axes, at, strict=True)))
        ceiling = equal_weights_loss(settings["d_v"], int(common["n_k"]))
        sizes = sorted({int(d_k) for d_k in frame["d_k"]})
        if len(sizes) < FEWEST_SIZES:
            continue
        grids = {
            (str(remedy), int(str(d_k))): Grid(cells, ceiling)
            for (remedy, d_k), cells in frame.groupby(["remedy", "d_k"], sort=True)
        }
        level, share = threshold([grid for (_, d_k), grid in grids.items() if d_k < sizes[-1]])
        for remedy in sorted(set(frame["remedy"])):
            found = {d_k: grids[remedy, d_k] for d_k in sizes}
            row: tables.Row = {
                "remedy": remedy,
                "d_k": sizes[-1],
                "threshold": float(np.exp(level)),
                "separated": share,
                **_compared(found, level),
            }
            yield {column.name: (common | row).get(column.name, np.nan) for column in COLUMNS}


def _compared(found: dict[int, Grid], level: float) -> tables.Row:
    """Return the measured limit at the largest d_k, and its predictions."""
    *small, large = found
    grid = found[large]
    logs = extended([found[d_k] for d_k in small], small, large)
    measured, predicted, same = (
        np.array([limit(one, at, grid.rates) for one in values])
        for values, at in (
            (grid.failed.astype(float), 0.5),
            (logs, level),
            (found[small[-1]].failed.astype(float), 0.5),
        )
    )
    both = np.isfinite(measured) & np.isfinite(predicted)
    row: tables.Row = {
        "n_seeds": len(measured),
        "judged": int(both.sum()),
        "agree_stable": int(np.sum((measured == np.inf) & (predicted == np.inf))),
        "missed": int(np.sum(np.isfinite(measured) != np.isfinite(predicted))),
    }
    if both.any():
        row |= {
            "limit": float(np.exp(np.mean(measured[both]))),
            "predicted_limit": float(np.exp(np.mean(predicted[both]))),
            **mean_row("gap", (predicted[both] - measured[both]) / np.log(10)),
        }
    known = np.isfinite(measured) & np.isfinite(same)
    if known.any():
        row["gap_same"] = float(np.mean(same[known] - measured[known]) / np.log(10))
    return row
