"""Attention by hand: three tokens of four dimensions, every array from x to the gradient."""

from sqrtdk.experiments.base import Experiment, Figure
from sqrtdk.experiments.worked_example import measure

EXPERIMENT = Experiment(
    name="worked_example",
    title="Attention by hand: three tokens of four dimensions, every array from x to the gradient.",
    row="One row per entry of an array.",
    measure=measure,
    scalar_scale_only=True,
    summarised=False,
    example=True,
    figures=(
        Figure("projections", tables=("runs",), seeds_from="runs"),
        Figure("attention", tables=("runs",), seeds_from="runs"),
        Figure("gradients", tables=("runs",), seeds_from="runs"),
    ),
)
