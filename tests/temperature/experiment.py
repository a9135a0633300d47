"""Entropy of the attention weights against a temperature on the scores."""

from sqrtdk.experiments.temperature import measure

from sqrtdk.experiments.base import Experiment, Figure, Pivot

EXPERIMENT = Experiment(
    name="temperature",
    title="Entropy of the attention weights against a temperature on the scores.",
    row="One row per cell.",
    measure=measure,
    figures=(Figure("entropy"),),
    pivot=Pivot(side="temperature"),
)
