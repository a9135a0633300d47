"""Queries with nothing to attend to: softmax, sinks and sigmoids."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Table
from sqrtdk.experiments.sinks import measure
from sqrtdk.experiments.training import experiment as training

EXPERIMENT = Experiment(
    name="sinks",
    title="Queries with nothing to attend to: softmax, sinks and sigmoids.",
    row="One row per cell.",
    measure=measure,
    research=True,
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
    limits=training.EXPERIMENT.limits,
    pivot=Pivot(
        metrics=("loss_unmatched", "loss_matched", "first_weight_unmatched"),
        side="first_key",
        down="attention",
        table="sinks",
        worded=True,
    ),
)
