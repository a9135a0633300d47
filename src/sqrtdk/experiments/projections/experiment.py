"""Projections: what attention loses where queries, keys and values do not each have their own."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot
from sqrtdk.experiments.projections import measure

EXPERIMENT = Experiment(
    name="projections",
    title="Projections: what attention loses where queries, keys and values do "
    "not each have their own.",
    row="One row per logged step of a cell.",
    measure=measure,
    companion_of="training",
    figures=(Figure("accuracy"),),
    pivot=Pivot(metrics=("accuracy", "asked_weight"), side="projections", down="learning_rate"),
)
