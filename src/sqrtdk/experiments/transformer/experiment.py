"""Transformer: loss, largest logit and entropy in training, against the rate and the scale."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Table
from sqrtdk.experiments.transformer import measure

EXPERIMENT = Experiment(
    name="transformer",
    title="Transformer: a small causal transformer and a recurrent network of its size, trained.",
    row="One row per logged step of a cell.",
    measure=measure,
    research=True,
    tables=(
        Table(
            "arms",
            "arms",
            "Loss at each learning rate and the window of rates: one row per scale rule and rate.",
            needs=("runs",),
            judges=True,
        ),
        Table(
            "collapse",
            "collapse",
            "Lowest attention entropy of each transformer, and whether it learns: one row per run.",
            needs=("runs",),
            judges=True,
        ),
        Table(
            "recurrence",
            "recurrence",
            "A transformer and a recurrent network of its size: one row per seed.",
            needs=("runs",),
            judges=True,
        ),
        Table(
            "start",
            "start",
            "Entropy at initialisation against the number of visible keys, beside the exact value "
            "for unrelated vectors.",
            needs=("runs",),
        ),
    ),
    figures=(
        Figure("rates", tables=("arms",), seeds_from="arms"),
        Figure("attention"),
        Figure("logits"),
        Figure("start", tables=("start",), seeds_from="start"),
    ),
    pivot=Pivot(
        metrics=("held_out_loss", "accuracy", "diverged", "entropy_0", "max_logit_0"),
        side="scaling",
        down="learning_rate",
        worded=True,
    ),
    references="transformer/references.html.j2",
    limits=(
        "The trained transformer is small and its training short: two layers, about 10⁵ "
        "parameters, a few hundred steps. Longer training may change which model is better: after "
        "5,400 steps on text, three transformers lacked 7 % of what recurrent networks learnt, "
        "after 600 steps 20 %.",
    ),
)
