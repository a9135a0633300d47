"""Compute recurrence.csv: a transformer and a recurrent network of its size, seed by seed.

Each is reported at the learning rate (the transformer also at the d_head) with the lowest mean loss
of the other seeds, so that no seed chooses its own.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.transformer import arms
from sqrtdk.experiments.transformer.arms import Arm
from sqrtdk.experiments.transformer.measure import TASK, Settings
from sqrtdk.schema import Column
from sqrtdk.stats.series import scaled_rule
from sqrtdk.storage import tables

_OTHERS = "at the rate that is best for the other seeds"

COLUMNS = (
    *(schema.axis_column(key) for key in (TASK, schema.SEED)),
    Column("begun", "Held-out loss of the transformer at initialisation.", "nats"),
    Column(
        "transformer", f"Its held-out loss with 1/√d_head, {_OTHERS}, and such a d_head.", "nats"
    ),
    Column("gru", f"Held-out loss of the recurrent network {_OTHERS}.", "nats"),
    *(
        Column(
            f"{name}_gain",
            f"Fall of the loss of that {words} since the last logged step of the first half of the "
            "training: near 0 if it has settled. Empty if no step of that half was logged.",
            "nats",
            optional=True,
        )
        for name, words in (("transformer", "transformer"), ("gru", "recurrent network"))
    ),
    Column("transformer_accuracy", "Accuracy of that transformer.", "share"),
    Column("gru_accuracy", "Accuracy of that recurrent network.", "share"),
    Column("transformer_parameters", "Number of parameters of the transformer."),
    Column("gru_parameters", "Number of parameters of the recurrent network."),
)


class Chosen(NamedTuple):
    """What a seed gets at settings that the other seeds chose."""

    loss: float
    gain: float
    accuracy: float


def choose(candidates: Sequence[Arm], seed: int) -> Chosen:
    """Return one seed, by its place, at the arm and rate that are best for the other seeds."""
    count = len(candidates[0].loss)
    others = [i for i in range(count) if i != seed] or [seed]
    means = [np.mean(arm.loss[others], axis=0) for arm in candidates]
    arm, place = min(
        ((arm, place) for arm, mean in enumerate(means) for place in range(len(mean))),
        key=lambda at: means[at[0]][at[1]],
    )
    best = candidates[arm]
    loss = float(best.loss[seed, place])
    gain = float(best.halfway[seed, place]) - loss
    return Chosen(loss, gain, float(best.accuracy[seed, place]))


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of recurrence.csv for a run's runs.csv; none if it lacks one of the two."""
    found = arms.arms_of(settings, runs)
    scaled = scaled_rule(settings["scaling"])
    size = runs.groupby("network")["parameters"].first()
    seeds = sorted(set(runs["seed"]))
    for task in sorted({at[0] for at in found}):
        transformers = [
            arm
            for at, arm in found.items()
            if (at[0], at[1], at[3]) == (task, "transformer", scaled)
        ]
        # Its rows repeat for every d_head and scale rule.
        recurrent = [arm for at, arm in found.items() if at[:2] == (task, "gru")][:1]
        if not transformers or not recurrent:
            continue
        for place, seed in enumerate(seeds):
            one, other = choose(transformers, place), choose(recurrent, place)
            yield {
                "task": task,
                "seed": seed,
                "begun": float(transformers[0].begun[place, 0]),
                "transformer": one.loss,
                "gru": other.loss,
                "transformer_gain": one.gain,
                "gru_gain": other.gain,
                "transformer_accuracy": one.accuracy,
                "gru_accuracy": other.accuracy,
                "transformer_parameters": float(size["transformer"]),
                "gru_parameters": float(size["gru"]),
            }
