"""Capacity: what a fixed vector can hold after long training, against its size."""

from dataclasses import replace

from sqrtdk.experiments.base import Figure, Pivot
from sqrtdk.experiments.capacity import measure
from sqrtdk.experiments.encoder_decoder import experiment as encoder_decoder

EXPERIMENT = replace(
    encoder_decoder.EXPERIMENT,
    name="capacity",
    title="Capacity: what a fixed vector can hold after long training, against its size.",
    companion_of="encoder_decoder",
    measure=measure,
    figures=(Figure("hidden"),),
    pivot=Pivot(metrics=("accuracy", "accuracy_gain"), side="reader", down="hidden"),
)
