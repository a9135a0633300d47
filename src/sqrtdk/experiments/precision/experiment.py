"""Half precision against d_k: scaling before or after the score product."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot
from sqrtdk.experiments.precision import measure

EXPERIMENT = Experiment(
    name="precision",
    title="Half precision against d_k: scaling before or after the score product.",
    row="One row per cell.",
    measure=measure,
    scalar_scale_only=True,
    figures=(Figure("errors"),),
    pivot=Pivot(metrics=("weight_error", "overflow_share"), side="order"),
)
