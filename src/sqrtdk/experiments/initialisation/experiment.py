"""Initialisation: the spread of the logits before any training, for the usual initialisations."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Small, Table, Value
from sqrtdk.experiments.initialisation import measure

EXPERIMENT = Experiment(
    name="initialisation",
    title="Initialisation: the spread of the logits in a layer that has not been trained.",
    row="One row per cell.",
    measure=measure,
    scalar_scale_only=True,
    research=True,
    tables=(
        Table(
            "sigma",
            "sigma",
            "σ of the logits at initialisation, measured and exact: one row per combination of "
            "axes.",
            needs=("runs",),
            judges=True,
        ),
    ),
    figures=(Figure("sigma", tables=("sigma",), seeds_from="sigma"),),
    small=(
        Small(
            "sigma",
            "σ before training with the scale that an initialisation is made for",
            "Standard deviation of the logits, quadratic mean over seeds, beside the exact value; "
            "unrelated embeddings of size 1 after LayerNorm.",
            down="init",
            side="d_model",
            numbers=(Value("", "mean", ("ci_low", "ci_high"), "exact"),),
            where={"own_scale": 1, "norm": "layer_norm", "cosine_percent": 0, "embedding_sd": 1.0},
        ),
    ),
    pivot=Pivot(
        metrics=("logit_std", "entropy_normalized", "max_weight"), side="init", down="d_model"
    ),
    references="initialisation/references.html.j2",
)
