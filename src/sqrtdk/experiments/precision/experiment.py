"""Half precision against d_k: scaling before or after the score product."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot
from sqrtdk.experiments.precision import measure

EXPERIMENT = Experiment(
    name="precision",
    title="Half precision against d_k: scaling before or after the score product.",
    row="One row per cell.",
    measured_by=measure.__name__,
    config_keys=measure.CONFIG_KEYS,
    columns=measure.COLUMNS,
    cells=measure.cells,
    batched_axes=measure.BATCHED_AXES,
    scalar_scale_only=True,
    memory=measure.memory,
    seconds=measure.seconds,
    figures=(Figure("errors"),),
    pivot=Pivot(metrics=("weight_error", "overflow_share"), side="order"),
)
