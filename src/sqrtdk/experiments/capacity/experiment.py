"""Capacity: what a fixed vector can hold after long training, against its size."""

from dataclasses import replace

from sqrtdk.experiments.base import Figure, Pivot
from sqrtdk.experiments.encoder_decoder import experiment as encoder_decoder

EXPERIMENT = replace(
    encoder_decoder.EXPERIMENT,
    name="capacity",
    title="Capacity: what a fixed vector can hold after long training, against its size.",
    companion_of="encoder_decoder",
    # Small models: a step of all learning rates takes little longer than that of one.
    batched_axes=("reader", "learning_rate"),
    figures=(Figure("hidden"),),
    pivot=Pivot(metrics=("accuracy", "accuracy_gain"), side="reader", down="hidden"),
)
