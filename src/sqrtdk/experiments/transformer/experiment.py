"""Transformer: loss, largest logit and entropy in training, against the rate and the scale."""

from sqrtdk.experiments.base import Experiment, Pivot
from sqrtdk.experiments.transformer import measure

EXPERIMENT = Experiment(
    name="transformer",
    title="Transformer: a small causal transformer and a recurrent network of its size, trained.",
    row="One row per logged step of a cell.",
    measured_by=measure.__name__,
    config_keys=measure.CONFIG_KEYS,
    columns=measure.COLUMNS,
    cells=measure.cells,
    batched_axes=measure.BATCHED_AXES,
    research=True,
    memory=measure.memory,
    seconds=measure.seconds,
    refuse=measure.refuse,
    pivot=Pivot(
        metrics=("held_out_loss", "accuracy", "diverged", "entropy_0", "max_logit_0"),
        side="scaling",
        down="learning_rate",
    ),
)
