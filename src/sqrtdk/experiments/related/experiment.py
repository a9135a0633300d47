"""Scale rules under input laws: which rule holds where the vectors are not unrelated."""

from dataclasses import replace

from sqrtdk.experiments.base import Figure, Pivot, Table
from sqrtdk.experiments.related import measure
from sqrtdk.experiments.scaling import experiment as scaling

EXPERIMENT = replace(
    scaling.EXPERIMENT,
    name="related",
    title="Scale rules under input laws: which rule holds where the vectors are not unrelated.",
    measure=measure,
    reference=None,
    tables=(
        Table(
            "cosines",
            "cosines",
            "Weight by cosine of key and query: one row per cosine and metric.",
            judges=True,
        ),
    ),
    figures=(
        Figure("entropy", tables=("summary", "exact")),
        Figure("logit_std", tables=("summary", "exact")),
        Figure("gradients", tables=("summary", "exact")),
        Figure("cosines", tables=("cosines",)),
    ),
    limits=(
        *scaling.EXPERIMENT.limits,
        "A planted match is one way for q and k to be related. Trained vectors are related in "
        "other ways and degrees.",
    ),
    pivot=Pivot(
        metrics=("entropy_normalized", "max_weight", "grad_logits_dead_entries", "grad_q_rms")
    ),
)
