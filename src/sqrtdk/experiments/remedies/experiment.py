"""Remedies for unscaled scores against 1/√d_k, each at its best learning rate."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Table
from sqrtdk.experiments.remedies import measure
from sqrtdk.experiments.training import experiment as training

EXPERIMENT = Experiment(
    name="remedies",
    title="Remedies for unscaled scores against 1/√d_k, each at its best learning rate.",
    row="One row per cell.",
    measure=measure,
    research=True,
    tables=(
        Table(
            "ladder",
            "ladder",
            "Steps to 90 % of each remedy at its best learning rate: one row per d_k.",
            needs=("runs",),
            judges=True,
        ),
        Table(
            "transfer",
            "transfer",
            "The best learning rate of each remedy: one row per d_k.",
            needs=("runs",),
            judges=True,
        ),
        Table(
            "instability",
            "instability",
            "The learning rate at which training fails, and its prediction: one row per remedy.",
            needs=("runs",),
            judges=True,
        ),
    ),
    figures=(
        Figure("steps", tables=("ladder",), seeds_from="ladder"),
        Figure("loss"),
        Figure("transfer", tables=("transfer",), seeds_from="transfer"),
        Figure("logits", tables=("summary", "instability")),
    ),
    references="remedies/references.html.j2",
    limits=training.EXPERIMENT.limits,
    pivot=Pivot(
        metrics=("sensitivity",),
        side="d_k",
        down="remedy",
        table="ladder",
        worded=True,
        also="beside",
    ),
)
