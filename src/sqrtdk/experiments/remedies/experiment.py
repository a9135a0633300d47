"""Remedies for unscaled scores against 1/√d_k, each at its best learning rate."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Small, Table, Value
from sqrtdk.experiments.remedies import measure
from sqrtdk.experiments.training import experiment as training

EXPERIMENT = Experiment(
    name="remedies",
    title="Remedies for unscaled scores against 1/√d_k, each at its best learning rate.",
    row="One row per cell.",
    measure=measure,
    research=True,
    tables=(
        Table(
            "ladder",
            "ladder",
            "Steps to 90 % of each remedy at its best learning rate: one row per d_k.",
            needs=("runs",),
            judges=True,
        ),
        Table(
            "transfer",
            "transfer",
            "The best learning rate of each remedy: one row per d_k.",
            needs=("runs",),
            judges=True,
        ),
        Table(
            "instability",
            "instability",
            "The learning rate at which training fails, and its prediction: one row per remedy.",
            needs=("runs",),
            judges=True,
        ),
    ),
    figures=(
        Figure("steps", tables=("ladder",), seeds_from="ladder"),
        Figure("loss"),
        Figure("transfer", tables=("transfer",), seeds_from="transfer"),
        Figure("logits", tables=("summary", "instability")),
    ),
    references="remedies/references.html.j2",
    limits=training.EXPERIMENT.limits,
    small=(
        Small(
            "transfer",
            "The best learning rate over d_k",
            "The learning rate with the fewest steps to 90 %, interpolated on the grid; geometric "
            "mean over seeds.",
            down="remedy",
            side="d_k",
            numbers=(Value("", "best_rate", ("rate_low", "rate_high")),),
        ),
        Small(
            "instability",
            "Where training fails, and the prediction",
            "The learning rate from which on runs fail at the largest d_k, and that predicted from "
            "the largest logits of smaller heads; their distance in decades; and the seeds in "
            "which both are on the grid, neither is, as predicted, or only one.",
            down="remedy",
            numbers=(
                Value("fails from rate", "limit"),
                Value("predicted", "predicted_limit"),
                Value("decades apart", "gap", ("gap_low", "gap_high")),
                Value("seeds with both", "judged"),
                Value("with neither", "agree_stable"),
                Value("with one", "missed"),
            ),
        ),
    ),
    pivot=Pivot(
        metrics=("sensitivity",),
        side="d_k",
        down="remedy",
        table="ladder",
        worded=True,
        also="beside",
    ),
)
