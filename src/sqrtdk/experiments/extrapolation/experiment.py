"""A head trained at few keys and asked at many, with scales that grow with their number."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Table
from sqrtdk.experiments.extrapolation import measure
from sqrtdk.experiments.training import experiment as training

EXPERIMENT = Experiment(
    name="extrapolation",
    title="A head trained at few keys and asked at many, with scales that grow with their number.",
    row="One row per cell.",
    measure=measure,
    research=True,
    tables=(
        Table(
            "lengths",
            "lengths",
            "Each scale rule at its best learning rate: one row per number of keys asked.",
            needs=("runs",),
            judges=True,
        ),
    ),
    figures=(Figure("match", tables=("lengths",), seeds_from="lengths"),),
    references="extrapolation/references.html.j2",
    limits=training.EXPERIMENT.limits,
    pivot=Pivot(
        metrics=("match_weight", "held_out_loss", "entropy_nats"),
        side="scaling",
        down="n_asked",
        table="lengths",
        worded=True,
    ),
)
