"""Transformer: loss, largest logit and entropy in training, against the rate and the scale."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Small, Table, Value
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
    small=(
        Small(
            "arms",
            "The window of learning rates and the loss of each scale rule",
            "At its best learning rate; the window of rates at which it learns, in decades; and "
            "the loss above that of the best rate, expected over the rates of the grid.",
            down="scaling",
            numbers=(
                Value("best rate", "learning_rate"),
                Value("loss (nats)", "loss", ("loss_low", "loss_high")),
                Value("window (decades)", "window", ("window_low", "window_high")),
                Value("sensitivity (nats)", "sensitivity", ("sensitivity_low", "sensitivity_high")),
            ),
            where={"best": 1, "network": "transformer"},
        ),
        Small(
            "recurrence",
            "Attention against recurrence",
            "Networks with as many parameters, each seed at the rate that is best for the others; "
            "mean over seeds of the loss and of its fall in the second half of the training.",
            down="task",
            numbers=(
                Value("loss, transformer", "transformer"),
                Value("loss, recurrent", "gru"),
                Value("fall, transformer", "transformer_gain"),
                Value("fall, recurrent", "gru_gain"),
                Value("accuracy, transformer", "transformer_accuracy"),
                Value("accuracy, recurrent", "gru_accuracy"),
            ),
            pooled=("seed",),
        ),
        Small(
            "collapse",
            "Runs that have not learnt, where the entropy collapses and elsewhere",
            "Share of the runs that have not learnt, of those whose attention entropy falls below "
            "0.1 of its maximum in some layer (collapsed = 1) and of the others, over all scale "
            "rules.",
            down="learning_rate",
            side="collapsed",
            numbers=(Value("", "failed"),),
            pooled=("scaling", "seed"),
        ),
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
