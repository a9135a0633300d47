"""twins.csv: training with scaling, and without it from smaller weights, is one and the same run.

Scores and gradients depend on the factor s = 1/√d_k and the projections W only through s W_q W_kᵀ.
So U = √s W without a factor has the same weights of attention, and √s dL/dU = dL/dW. Gradient
descent on U at rate s r therefore makes the steps that descent on W makes at rate r, and Adam, to
which the size of a gradient does not matter, at rate √s r (its epsilon, which does, over √s).
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sqrtdk import config, keys, rates, retrieval, scales, shards, summary, tables
from sqrtdk.attention import Floats
from sqrtdk.experiments import training
from sqrtdk.keys import Column
from sqrtdk.retrieval import Adam, Optimizer, Point, Sgd
from sqrtdk.series import scaled_arm

SEEDS = 3
"""Seeds at most: two runs are the same or they are not."""

COLUMNS = (
    *(keys.axis_column(key) for key in (*rates.TASK, keys.SEED)),
    Column("learning_rate", "Learning rate of the scaled run: the best one of rates.csv."),
    Column("twin_rate", "That of its twin: over √d_k under sgd, over d_k^(1/4) under adam."),
    Column("steps_to_90", "Steps to 90 % of the scaled run; inf where not reached.", "steps"),
    Column("twin_steps_to_90", "The same of its twin.", "steps"),
    Column(
        "difference",
        "Largest absolute difference of the two held-out losses over the logged steps.",
    ),
)


def twins(
    slab: Mapping[str, Any], w_q: Floats, w_k: Floats, *, rate: float, factor: float
) -> tuple[Optimizer, Optimizer]:
    """The optimizer that trains with a factor, and the one that trains the same without."""
    root = factor**0.5
    rates_of = {"sgd": rate * factor, "adam": rate * root}
    own, other = (np.full((1, 1, 1), x) for x in (rate, rates_of[slab["optimizer"]]))
    if slab["optimizer"] == "adam":
        epsilon = 1e-8
        return (
            Adam(w_q, w_k, rate=own, epsilon=epsilon),
            Adam(root * w_q, root * w_k, rate=other, epsilon=epsilon / root),
        )
    return Sgd(w_q, w_k, rate=own), Sgd(root * w_q, root * w_k, rate=other)


def train_twins(
    slab: dict[str, Any], seed: int, *, rate: float, factor: float
) -> tuple[list[Point], list[Point]]:
    """The logged points of both runs."""
    batches, held_out, _ = training.draw(slab, seed)
    pair = twins(slab, *training.projections(slab, seed), rate=rate, factor=factor)
    with np.errstate(over="ignore", invalid="ignore"):
        one, other = (
            retrieval.train(
                optimizer,
                batches,
                held_out,
                scale=np.full((1, 1, 1), scale),
                loss=slab["loss"],
                logged=training.logged(slab["steps"]),
                level=training.LEVEL,
            )
            for optimizer, scale in zip(pair, (factor, 1.0), strict=True)
        )
    return one, other


def rows(settings: Mapping[str, Any], table: pd.DataFrame) -> Iterator[tables.Row]:
    """Both runs at the best rate of the arm that divides by √d_k; none where there is no such arm.

    `table` is rates.csv.
    """
    arm = scaled_arm(settings["scaling"])
    best = table[(table["best"] == 1) & (table["scaling"] == arm)]
    task = [key.name for key in rates.TASK]
    at = {tuple(row[name] for name in task): row for row in best.to_dict("records")}
    for slab in shards.slabs(dict(settings), training.WITHIN):
        row = at.get(tuple(slab[name] for name in task))
        if arm is None or row is None:
            continue
        factor = scales.factor(settings["scaling"][arm], d_k=slab["d_k"], n_k=slab["n_k"])
        assert factor is not None
        for seed in settings["seed"][:SEEDS]:
            rate = float(row["learning_rate"])
            one, other = train_twins(slab, seed, rate=rate, factor=factor)
            apart = [float(a.loss[0] - b.loss[0]) for a, b in zip(one, other, strict=True)]
            ends = [float(run[-1].steps_to_level[0]) for run in (one, other)]
            yield {
                **{name: slab[name] for name in task},
                "seed": seed,
                "learning_rate": rate,
                "twin_rate": rate * (factor if slab["optimizer"] == "sgd" else factor**0.5),
                "steps_to_90": np.inf if np.isnan(ends[0]) else ends[0],
                "twin_steps_to_90": np.inf if np.isnan(ends[1]) else ends[1],
                "difference": max(map(abs, apart)),
            }


def main() -> None:
    """Write twins.csv (third) of the run whose config is first, by its rates.csv (second)."""
    settings = config.load(Path(sys.argv[1])).settings["training"]
    found = sorted(
        rows(settings, summary.read(Path(sys.argv[2]), rates.COLUMNS)), key=tables.axes_of(COLUMNS)
    )
    tables.write_atomically(Path(sys.argv[3]), tables.text(found, COLUMNS))


if __name__ == "__main__":
    main()
