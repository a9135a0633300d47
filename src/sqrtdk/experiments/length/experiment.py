"""The power of log n that keeps attention as selective at every length."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Small, Table, Value
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
    small=(
        Small(
            "best",
            "The best power of log n",
            "The power under which the criterion has no slope over the lengths, mean over seeds; "
            "the exact one over the lengths up to the middle one and from it on; and the exact "
            "range under √(log n) and log n, as a share of the largest value.",
            down="rows",
            numbers=(
                Value("best power", "mean", ("ci_low", "ci_high"), "exact"),
                Value("shorter rows", "exact_first"),
                Value("longer rows", "exact_last"),
                Value("range with √(log n)", "moves_half"),
                Value("range with log n", "moves_one"),
            ),
        ),
        Small(
            "curves",
            "Weight of the match, or largest weight, at each length",
            "Mean over seeds. The figure has the weight of a match as a share of the most that any "
            "factor reaches.",
            down="n_k",
            side="rule",
            where={"metric": "selectivity"},
            numbers=(Value("", "mean", ("ci_low", "ci_high"), "exact"),),
        ),
    ),
    pivot=Pivot(metrics=("selectivity", "entropy_share"), side="rows", down="rule", most=40),
)
