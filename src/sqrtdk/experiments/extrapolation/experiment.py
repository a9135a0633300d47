"""A head trained at few keys and asked at many, with scales that grow with their number."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Table
from sqrtdk.experiments.extrapolation import measure

EXPERIMENT = Experiment(
    name="extrapolation",
    title="A head trained at few keys and asked at many, with scales that grow with their number.",
    row="One row per cell.",
    measured_by=measure.__name__,
    config_keys=measure.CONFIG_KEYS,
    columns=measure.COLUMNS,
    cells=measure.cells,
    batched_axes=measure.BATCHED_AXES,
    scalar_scale_only=True,
    research=True,
    memory=measure.memory,
    seconds=measure.seconds,
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
    limits=(
        "The trained task is a toy: one head, one layer, noisy retrieval of an item among few, "
        "with few seeds; learning rates are those of a grid. Steps are not time, and no language "
        "model was trained.",
    ),
    pivot=Pivot(
        metrics=("match_weight", "held_out_loss"), side="scaling", down="n_asked", table="lengths"
    ),
)
