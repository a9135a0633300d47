"""Encoder and decoder: a fixed vector or attention over all states, against source length."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot
from sqrtdk.experiments.encoder_decoder import measure

EXPERIMENT = Experiment(
    name="encoder_decoder",
    title="Encoder and decoder: a fixed vector or attention over all states, "
    "against source length.",
    row="One row per logged step of a cell.",
    measure=measure,
    references="encoder_decoder/references.html.j2",
    figures=(
        Figure("length"),
        Figure("curves"),
    ),
    pivot=Pivot(metrics=("accuracy", "steps_to_90", "asked_weight"), side="reader", down="length"),
)
