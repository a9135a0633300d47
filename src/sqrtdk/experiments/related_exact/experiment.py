"""Independent draws of related vectors against their exact means."""

from sqrtdk.experiments.base import Experiment, Figure, Small, Table, Value
from sqrtdk.experiments.related_exact import measure

EXPERIMENT = Experiment(
    name="related_exact",
    title="Exact values for related vectors: independent draws against theory.",
    row="One row per metric of a point.",
    measure=measure,
    summarised=False,
    research=True,
    tables=(
        Table(
            "gate",
            "gate",
            "Deviations from exact values in standard errors: one row per law and metric.",
            needs=("runs",),
            judges=True,
        ),
        Table(
            "quadrature",
            "quadrature",
            "Exact means of two keys against a double integral: one row per law, size and mean.",
            needs=("runs",),
        ),
    ),
    figures=(Figure("z", tables=("gate",), seeds_from="gate"),),
    small=(
        Small(
            "gate",
            "Deviations from theory",
            "Root mean square over independent points of the deviations from the exact values, in "
            "standard errors; chance alone gives 1.",
            down="metric",
            side="vectors",
            numbers=(
                Value("rms of z", "rms_z", ("ci_low", "ci_high")),
                Value("largest |z|", "max_abs_z"),
            ),
        ),
    ),
    limits=(
        "Exact values of related vectors exist for one match with each query, not for several "
        "related keys (`graded`), and for scale rules that are one factor.",
    ),
)
