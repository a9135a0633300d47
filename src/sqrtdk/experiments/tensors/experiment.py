"""Your own model: the heads of a file of queries and keys, compared with unrelated vectors."""

from sqrtdk.experiments.base import Experiment, Figure, Table
from sqrtdk.experiments.tensors import measure

EXPERIMENT = Experiment(
    name="tensors",
    title="Your own model: the heads in a file, compared with unrelated vectors.",
    row="One row per layer, input, batch entry, head and scale rule of a file.",
    measure=measure,
    scalar_scale_only=True,
    summarised=False,
    needs_key="path",
    tables=(
        Table(
            "heads",
            "heads",
            "One row per file, scale rule, layer and head: means over inputs, and its place by "
            "deviation from unrelated vectors.",
            needs=("runs",),
        ),
        Table(
            "models",
            "models",
            "One row per file, scale rule and metric: over the heads of the file.",
            needs=("heads",),
            judges=True,
        ),
        Table(
            "rescaled",
            "rescaled",
            "One row per multiple of its own scale of each model among the files: what it still "
            "computes. Measured once, not by this run; empty where no file is such a model.",
            needs=("heads",),
            judges=True,
        ),
    ),
    figures=(
        Figure("sigma", tables=("heads",), seeds_from="heads"),
        Figure("map", tables=("heads",), seeds_from="heads"),
        Figure("ranking", tables=("heads",), seeds_from="heads"),
        Figure("rescaled", tables=("rescaled",), seeds_from="rescaled"),
        Figure("d_k", tables=("models",), seeds_from="models"),
    ),
)
