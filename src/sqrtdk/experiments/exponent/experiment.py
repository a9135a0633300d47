"""The power of d_k that keeps attention as it is."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Small, Table, Value
from sqrtdk.experiments.exponent import measure

EXPERIMENT = Experiment(
    name="exponent",
    title="Exponent: the power of d_k that keeps attention as it is, for unrelated and related "
    "vectors.",
    row="One row per exponent of a cell.",
    measure=measure,
    research=True,
    tables=(
        Table(
            "best",
            "best",
            "The best exponent by two criteria: one row per n_k, input law and criterion.",
            needs=("runs",),
            judges=True,
        ),
        Table(
            "curves",
            "curves",
            "Exact entropy and weight of the match at one n_k: one row per d_k, law and exponent.",
        ),
        Table(
            "limits",
            "limits",
            "Where 1/√d_k fails for a match and 8/d_k holds, exact: one row per n_k and input law.",
        ),
    ),
    figures=(
        Figure("curves", tables=("summary", "curves")),
        Figure("best", tables=("best",), seeds_from="best"),
    ),
    limits=(
        "The vectors of `exponent` are drawn, not trained, and their relation does not change with "
        "d_k. The best exponent depends on the range of d_k and, where queries have a match, on "
        "the number of keys: it falls as n_k grows.",
    ),
    small=(
        Small(
            "best",
            "The best exponent of d_k",
            "The exponent at which the entropy, or the weight of the match, has no slope over d_k; "
            "mean over seeds.",
            down="inputs",
            side="n_k",
            numbers=(Value("", "mean", ("ci_low", "ci_high"), "exact"),),
        ),
        Small(
            "limits",
            "Where 1/√d_k fails for a match and 8/d_k holds",
            "Exact: the d_k from which on the mean entropy with 1/√d_k is below half of ln n_k, "
            "and with 8/d_k above it; and the mean weight of the match at d_k = 4096.",
            down="n_k",
            numbers=(
                Value("1/√d_k fails from d_k", "root_fails"),
                Value("8/d_k holds from d_k", "inverse_holds"),
                Value("weight with 1/√d_k", "root_match"),
                Value("weight with 8/d_k", "inverse_match"),
            ),
        ),
    ),
    pivot=Pivot(
        metrics=("entropy_nats", "match_weight", "max_weight"), side="inputs", down="exponent"
    ),
)
