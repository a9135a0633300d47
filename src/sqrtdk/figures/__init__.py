"""The figures of each experiment, in the report's order. Their captions are in report/captions/."""

FIGURES = {
    "scaling": (
        "entropy",
        "max_weight",
        "gradients",
        "gradients_k_v",
        "dead_entries",
        "weights",
        "logit_std",
    ),
}
