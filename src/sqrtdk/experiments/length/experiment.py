"""The power of log n that keeps attention as selective at every length."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Table
from sqrtdk.experiments.length import measure

EXPERIMENT = Experiment(
    name="length",
    title="Length: the power of log n that keeps attention as selective at every number of keys.",
    row="One row per rule of a cell.",
    measure=measure,
    research=True,
    tables=(
        Table(
            "best",
            "best",
            "The best power of log n by two criteria: one row per law of rows and criterion.",
            needs=("runs",),
            judges=True,
        ),
        Table(
            "curves",
            "curves",
            "Selectivity and entropy with exact values: one row per length, rule and metric.",
            needs=("runs",),
            judges=True,
        ),
    ),
    figures=(
        Figure("curves", tables=("curves",), seeds_from="curves"),
        Figure("best", tables=("best",), seeds_from="best"),
    ),
    references="length/references.html.j2",
    limits=(
        "The rows of `length` are drawn, not those of a trained model, and their law does not "
        "change with the number of keys. The best power depends on the range of lengths.",
    ),
    pivot=Pivot(metrics=("selectivity", "entropy_share"), side="rows", down="rule", most=40),
)
