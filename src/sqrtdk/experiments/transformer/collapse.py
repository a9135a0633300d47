"""Compute collapse.csv: which runs' attention entropy collapses, and which have not learnt.

A large learning rate both lowers the entropy and makes a run fail, and so may a scale rule. So
runs are compared at the same rate, or at the same rule and rate (`matched`).
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.transformer import arms
from sqrtdk.experiments.transformer.measure import D_HEAD, LEARNING_RATE, TASK, Settings
from sqrtdk.experiments.transformer.model import LAYERS
from sqrtdk.schema import Column
from sqrtdk.storage import tables

COLLAPSED = 0.1
"""Share of the largest possible entropy below which a layer has collapsed."""

COLUMNS = (
    *(
        schema.axis_column(key)
        for key in (TASK, D_HEAD, schema.SCALING, LEARNING_RATE, schema.SEED)
    ),
    Column(
        "lowest_entropy",
        "Lowest entropy_* of a layer at a logged step. Empty if the run diverged before one.",
        "share",
        optional=True,
    ),
    Column("collapsed", f"1 if lowest_entropy is below {COLLAPSED}, else 0.", read=int),
    Column("failed", "1 if the run has not learnt, as in arms.csv, else 0.", read=int),
)


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of collapse.csv for a run's runs.csv."""
    found = arms.arms_of(settings, runs)
    best = arms.best_losses(found)
    runs = runs[runs["network"] == "transformer"]
    seeds = sorted(set(runs["seed"]))
    low = runs[[f"entropy_{layer}" for layer in range(LAYERS)]].min(axis=1)
    lowest = low.groupby([runs[x] for x in ("task", "d_head", "scaling", "learning_rate", "seed")])
    by_run = lowest.min()
    for (task, network, d_head, scaling), arm in found.items():
        if network != "transformer":
            continue
        learnt = arm.learnt(best[task, d_head])
        for place, rate in enumerate(arm.rates):
            for i, seed in enumerate(seeds):
                entropy = float(by_run.loc[task, d_head, scaling, rate, seed])
                yield {
                    "task": task,
                    "d_head": d_head,
                    "scaling": scaling,
                    "learning_rate": rate,
                    "seed": seed,
                    "lowest_entropy": entropy,
                    # NaN is below nothing: such a run has diverged before its entropy was low.
                    "collapsed": int(entropy < COLLAPSED),
                    "failed": int(not learnt[i, place]),
                }


def matched(runs: pd.DataFrame, by: Sequence[str]) -> tuple[float, float, int]:
    """Compare runs that collapse with others of the same `by`.

    Return the difference of the shares of runs that fail, collapsed minus others, its weight, and
    the number of groups with runs of both kinds. It is the Mantel-Haenszel difference (Greenland
    and Robins 1985): a group of a collapsed and b other runs has the weight a b/(a + b). NaN
    without such a group.
    """
    total, weight, groups = 0.0, 0.0, 0
    for _, one in runs.groupby(list(by), sort=True):
        low = one["collapsed"].to_numpy(bool)
        failed = one["failed"].to_numpy(float)
        a, b = int(np.sum(low)), int(np.sum(~low))
        if a and b:
            share = a * b / (a + b)
            total += share * float(np.mean(failed[low]) - np.mean(failed[~low]))
            weight += share
            groups += 1
    return (total / weight if weight else math.nan), weight, groups
