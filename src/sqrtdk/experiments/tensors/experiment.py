"""Your own model: the heads of a file of queries and keys, compared with unrelated vectors."""

from sqrtdk.experiments.base import Experiment
from sqrtdk.experiments.tensors import measure

EXPERIMENT = Experiment(
    name="tensors",
    title="Your own model: the heads in a file, compared with unrelated vectors.",
    row="One row per layer, input, batch entry, head and scale rule of a file.",
    measured_by=measure.__name__,
    config_keys=measure.CONFIG_KEYS,
    columns=measure.COLUMNS,
    cells=measure.cells,
    scalar_scale_only=True,
    summarised=False,
    needs_key="path",
    refuse=measure.refuse,
)
