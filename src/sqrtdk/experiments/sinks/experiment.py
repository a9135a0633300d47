"""Queries with nothing to attend to: softmax, sinks and sigmoids."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Table
from sqrtdk.experiments.sinks import measure

EXPERIMENT = Experiment(
    name="sinks",
    title="Queries with nothing to attend to: softmax, sinks and sigmoids.",
    row="One row per cell.",
    measured_by=measure.__name__,
    config_keys=measure.CONFIG_KEYS,
    columns=measure.COLUMNS,
    cells=measure.cells,
    batched_axes=measure.BATCHED_AXES,
    research=True,
    memory=measure.memory,
    seconds=measure.seconds,
    tables=(
        Table(
            "sinks",
            "sinks",
            "Losses and weights of each attention at its best learning rate: one row per d_k.",
            needs=("runs",),
            judges=True,
        ),
    ),
    figures=(
        Figure("loss", tables=("sinks",), seeds_from="sinks"),
        Figure("weights", tables=("sinks",), seeds_from="sinks"),
    ),
    references="sinks/references.html.j2",
    limits=(
        "The trained task is a toy: one head, one layer, noisy retrieval of an item among few, "
        "with few seeds; learning rates are those of a grid. Steps are not time, and no language "
        "model was trained.",
    ),
    pivot=Pivot(
        metrics=("loss_unmatched", "loss_matched", "first_weight_unmatched"),
        side="first_key",
        down="attention",
        table="sinks",
    ),
)
