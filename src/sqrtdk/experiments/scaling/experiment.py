"""Scaling on and off against d_k: what the softmax and its gradients do."""

from sqrtdk.experiments.base import Experiment, Figure, Pivot, Reference, Table
from sqrtdk.experiments.scaling import measure

EXPERIMENT = Experiment(
    name="scaling",
    title="Scaling on and off against d_k: what the softmax and its gradients do.",
    row="One row per cell.",
    measure=measure,
    has_exact=True,
    paired=True,
    reference=Reference(
        {
            "scaling": {
                "off": {"rule": "constant", "value": 1},
                "on": {"rule": "power", "exponent": 0.5, "multiplier": 1.0},
            },
            "inputs": {"gaussian": {"law": "gaussian"}},
            "d_v": 64,
        }
    ),
    tables=(
        Table(
            "crossings",
            "crossings",
            "The d_k above which an effect holds: one row per series and quantity.",
            needs=("summary", "contrasts"),
        ),
        Table("tails", "tails", "How a gradient is spread over its rows: one row per rank shown."),
        Table("weights", "weights", "Weights of a few cells, the first queries and keys."),
        Table("one_query", "one_query", "The largest weights of one query: one row per key."),
        Table("asides", "asides", "Small cases for questions that people ask: one row per number."),
    ),
    figures=(
        Figure("entropy", tables=("summary", "exact")),
        Figure("max_weight", tables=("summary", "exact")),
        Figure("gradients", tables=("summary", "exact")),
        Figure("gradients_k_v", tables=("summary", "exact")),
        Figure("dead_entries", tables=("summary", "exact")),
        Figure("tails", tables=("tails",), seeds_from="tails"),
        Figure("weights", tables=("weights",), seeds_from="weights"),
        Figure("logit_std", tables=("summary", "exact")),
        Figure("collapse", tables=("summary", "exact")),
        Figure("onset", tables=("summary", "exact", "crossings")),
    ),
    pivot=Pivot(
        metrics=(
            "logit_std",
            "entropy_normalized",
            "effective_keys",
            "max_weight",
            "grad_logits_dead_entries",
            "grad_logits_median",
            "grad_q_rms",
        ),
        also="crossings_table",
    ),
    limits=(
        "Queries, keys and values of `scaling` and `related` are random: no model, no text, no "
        "training, no mask, no position, no dropout. They show what the formula does, not what a "
        "network makes of it. They are computed in double precision unless a table says so.",
        "Their gradients are those of a random linear loss of the output of one layer and head.",
        "Theory has exact values of them only for normal q and k, independent or with a match, and "
        "for the sphere, with a factor of d_k and n_k; medians, quantiles and shares have none.",
    ),
)
