"""Reach: how far back a gradient reaches, for a fixed vector and for attention."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot
from sqrtdk.experiments.reach import measure

EXPERIMENT = Experiment(
    name="reach",
    title="Reach: how far back a gradient reaches, for a fixed vector and for "
    "attention, untrained and trained.",
    row="One row per stage and distance of a cell.",
    measure=measure,
    references="encoder_decoder/references.html.j2",
    figures=(Figure("distance"),),
    pivot=Pivot(metrics=("jacobian_norm", "accuracy"), side="reader", down="distance", most=6),
)
