"""Training associative retrieval against d_k: when scaling helps, and when it does not."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Table
from sqrtdk.experiments.training import measure

EXPERIMENT = Experiment(
    name="training",
    title="Training associative retrieval against d_k: when scaling helps, and when it does not.",
    row="One row per logged step of a cell.",
    measure=measure,
    scalar_scale_only=True,
    tables=(
        Table(
            "rates",
            "rates",
            "How fast each scale rule learns: one row per learning rate.",
            needs=("runs",),
            judges=True,
        ),
        Table(
            "twins",
            "equivalence",
            "Runs with scaling and their twins without: one row per pair.",
            needs=("rates",),
            judges=True,
        ),
    ),
    figures=(
        Figure("curves", tables=("summary", "rates"), seeds_from="rates"),
        Figure("steps", tables=("rates", "twins"), seeds_from="rates"),
        Figure("rates", tables=("rates",), seeds_from="rates"),
        Figure("noise", seeds_from="rates"),
    ),
    limits=(
        "The trained task is a toy: one head, one layer, noisy retrieval of an item among few, "
        "with few seeds; learning rates are those of a grid. Steps are not time, and these "
        "heads are no language models.",
    ),
    pivot=Pivot(metrics=("steps_to_90", "learning_rate"), table="rates"),
)
