"""Encoder and decoder: a fixed vector or attention over all states, against source length."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot
from sqrtdk.experiments.encoder_decoder import measure

EXPERIMENT = Experiment(
    name="encoder_decoder",
    title="Encoder and decoder: a fixed vector or attention over all states, "
    "against source length.",
    row="One row per logged step of a cell.",
    measured_by=measure.__name__,
    config_keys=measure.CONFIG_KEYS,
    columns=measure.COLUMNS,
    cells=measure.cells,
    batched_axes=measure.BATCHED_AXES,
    references="encoder_decoder/references.html.j2",
    memory=measure.memory,
    seconds=measure.seconds,
    figures=(
        Figure("length"),
        Figure("curves"),
    ),
    pivot=Pivot(metrics=("accuracy", "steps_to_90", "asked_weight"), side="reader", down="length"),
)
