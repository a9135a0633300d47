"""Compute twins.csv: training with scaling, and without it from smaller weights, is the same run.

Scores and gradients depend on the factor s = 1/√d_k and the projections W only through s W_q W_kᵀ.
So U = √s W without a factor gives the same attention, and dL/dU = dL/dW / √s. Gradient descent on
U at rate s r therefore takes the same steps as descent on W at rate r. Adam does so at rate √s r,
because its steps do not depend on the size of a gradient, if its epsilon is divided by √s.

Both runs are trained here, in float64. Adam amplifies rounding where an entry of the gradient is
nearly 0, and in float32 that is too much to compare two runs.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar, cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.core import adam, scale_rules
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.training import lookup, loop, rates
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.training.lookup import Optimizer
from sqrtdk.experiments.training.loop import LogPoint
from sqrtdk.schema import Column
from sqrtdk.stats.series import scaled_rule
from sqrtdk.storage import planning, tables

MAX_SEEDS = 12
"""Maximum number of seeds: a few are enough, because two runs are either the same or not."""

TOGETHER = 4
"""Number of pairs that are trained together: more would need more memory for their data."""

COLUMNS = (
    *(schema.axis_column(key) for key in (*rates.TASK, schema.SEED)),
    Column(
        "learning_rate",
        "Learning rate of the run that divides by √d_k: the rate at which rates.csv reports the "
        "seed, which the other half of the seeds chose.",
    ),
    Column(
        "twin_rate",
        "Rate of the equivalent unscaled run: over √d_k with sgd, over d_k^(1/4) with adam.",
    ),
    Column("steps_to_90", "Steps to 90 % of the scaled run; inf if not reached.", "steps"),
    Column("twin_steps_to_90", "Steps to 90 % of the equivalent run; inf if not reached.", "steps"),
    Column(
        "difference",
        "Largest difference of their held-out losses over the logged steps, relative to the loss.",
    ),
)


Rate = TypeVar("Rate", float, Floats)


def twin_rate(rate: Rate, *, factor: float, optimizer: str) -> Rate:
    """Return the learning rate that gives the same steps without scaling from smaller weights."""
    return rate * (factor if optimizer == "sgd" else factor**0.5)


def pair_optimizer(
    w_q: Floats, w_k: Floats, *, rate: float | Floats, factor: float, optimizer: str
) -> Optimizer:
    """Build the optimizer of scaled runs, then of the unscaled ones that take the same steps.

    `w_q` and `w_k` are the projections of a run or of several, and `rate` their learning rates.
    """
    root = factor**0.5
    first_q, first_k = (w.reshape(-1, *w.shape[-2:]) for w in (w_q, w_k))
    w_q, w_k = (np.concatenate([w, root * w]) for w in (first_q, first_k))
    own = np.broadcast_to(rate, len(first_q))
    rates = np.concatenate([own, twin_rate(own, factor=factor, optimizer=optimizer)])
    by_run = rates[:, np.newaxis, np.newaxis]
    epsilon = adam.EPSILON / np.repeat([1.0, root], len(own))[:, np.newaxis, np.newaxis]
    return lookup.optimizer(optimizer, w_q, w_k, by_run, epsilon)


def train_pairs(
    slab: training.Slab, seeds: Sequence[int], *, rate: Floats, factor: float
) -> list[LogPoint]:
    """Train scaled runs of some seeds, with a rate each, and the equivalent ones without a scale.

    The logged points have all scaled runs first.
    """
    batches, held_out = zip(*(training.draw(slab, seed) for seed in seeds), strict=True)
    w_q, w_k = (
        np.stack(w) for w in zip(*(training.projections(slab, s) for s in seeds), strict=True)
    )
    with np.errstate(over="ignore", invalid="ignore"):
        return loop.train(
            pair_optimizer(w_q, w_k, rate=rate, factor=factor, optimizer=slab["optimizer"]),
            lookup.stack(batches * 2, axis=1),
            lookup.stack(held_out * 2, axis=0),
            scale=np.repeat([factor, 1.0], len(seeds))[:, np.newaxis, np.newaxis],
            loss=slab["loss"],
            logged=training.logged(slab["steps"]),
            level=training.LEARNT_ACCURACY,
        )


def rows(settings: training.Settings, table: pd.DataFrame) -> list[tables.Row]:
    """Return the rows of twins.csv in the order of their axes, from rates.csv."""
    return sorted(pairs(settings, table), key=tables.axes_of(COLUMNS))


def pairs(settings: training.Settings, table: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield a row for each run of the rule that divides by √d_k; none without that rule.

    `table` is rates.csv.
    """
    rule = scaled_rule(settings["scaling"])
    if rule is None:
        return
    task = [key.name for key in rates.TASK]
    best = table[(table["best"] == 1) & (table["scaling"] == rule)]
    rates_of = {
        tuple(row[x] for x in task): (row["rate_first"], row["rate_second"])
        for row in best.to_dict("records")
    }
    for one in planning.slabs(settings, training.BATCHED_AXES):
        slab, values = cast(training.Slab, one), cast(tables.Row, one)
        at = tuple(values[name] for name in task)
        factor = scale_rules.factor(settings["scaling"][rule], d_k=slab["d_k"], n_k=slab["n_k"])
        if factor is None:
            raise ValueError(f"{rule} is not one factor of d_k and n_k")
        seeds = sorted(settings["seed"])[:MAX_SEEDS]
        own_rates = np.array([rates_of[at][place % 2] for place in range(len(seeds))], dtype=float)
        twin_rates = twin_rate(own_rates, factor=factor, optimizer=slab["optimizer"])
        for start in range(0, len(seeds), TOGETHER):
            part = slice(start, start + TOGETHER)
            points = train_pairs(slab, seeds[part], rate=own_rates[part], factor=factor)
            own, other = np.split(
                np.array([point.loss for point in points], dtype=float), 2, axis=1
            )
            ends = np.nan_to_num(points[-1].steps_to_level, nan=np.inf)
            steps, twin_steps = np.split(ends, 2)
            for run, seed in enumerate(seeds[part]):
                yield {
                    **dict(zip(task, at, strict=True)),
                    "seed": seed,
                    "learning_rate": float(own_rates[start + run]),
                    "twin_rate": float(twin_rates[start + run]),
                    "steps_to_90": float(steps[run]),
                    "twin_steps_to_90": float(twin_steps[run]),
                    "difference": _difference(own[:, run], other[:, run]),
                }


def _difference(own: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference relative to `own`; 0 where both are 0 or both diverged."""
    same = (own == other) | (np.isnan(own) & np.isnan(other))
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(other - own) / np.abs(own)
    # If only one has diverged, the difference is infinite.
    return float(np.max(np.where(same, 0.0, np.nan_to_num(apart, nan=np.inf, posinf=np.inf))))
