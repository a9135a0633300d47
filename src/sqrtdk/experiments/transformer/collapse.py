"""Compute collapse.csv: runs whose attention entropy collapses, and whether they learn."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.transformer import arms
from sqrtdk.experiments.transformer.measure import D_HEAD, TASK, Settings
from sqrtdk.experiments.transformer.model import LAYERS
from sqrtdk.schema import Column
from sqrtdk.storage import tables

COLLAPSED = 0.1
"""Share of the largest possible entropy below which a layer has collapsed."""

COLUMNS = (
    *(schema.axis_column(key) for key in (TASK, D_HEAD, schema.SEED)),
    Column(
        "collapsed",
        f"Number of transformers, over scale rules and rates, of which a layer's entropy_* is "
        f"below {COLLAPSED} at a logged step.",
        "runs",
        read=int,
    ),
    Column("collapsed_failed", "Number of these that have not learnt.", "runs", read=int),
    Column("others", "Number of the other transformers.", "runs", read=int),
    Column("others_failed", "Number of these that have not learnt.", "runs", read=int),
)


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of collapse.csv for a run's runs.csv."""
    found = arms.arms_of(settings, runs)
    best = arms.best_losses(found)
    runs = runs[runs["network"] == "transformer"]
    low = runs[[f"entropy_{layer}" for layer in range(LAYERS)]].min(axis=1)
    lowest = low.groupby([runs[x] for x in ("task", "d_head", "scaling", "learning_rate", "seed")])
    by_run = lowest.min()
    for (task, d_head), level in best.items():
        fails: dict[int, list[tuple[bool, bool]]] = {}
        for (other, network, width, scaling), arm in found.items():
            if (other, network, width) != (task, "transformer", d_head):
                continue
            seeds = sorted(set(runs["seed"]))
            learnt = arm.learnt(level)
            for place, rate in enumerate(arm.rates):
                for i, seed in enumerate(seeds):
                    entropy = by_run.loc[task, d_head, scaling, rate, seed]
                    # A run whose entropy was never a number has diverged before a step was logged.
                    is_low = bool(entropy < COLLAPSED)
                    fails.setdefault(seed, []).append((is_low, not bool(learnt[i, place])))
        for seed, pairs in fails.items():
            table = np.array(pairs)
            low_runs = table[:, 0]
            yield {
                "task": task,
                "d_head": d_head,
                "seed": seed,
                "collapsed": int(np.sum(low_runs)),
                "collapsed_failed": int(np.sum(table[low_runs, 1])),
                "others": int(np.sum(~low_runs)),
                "others_failed": int(np.sum(table[~low_runs, 1])),
            }
