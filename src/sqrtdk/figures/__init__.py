"""The figures of each experiment, in the report's order, and the tables that they are drawn from.

Their captions are in report/captions/.
"""

FIGURES = {
    "scaling": (
        "entropy",
        "max_weight",
        "gradients",
        "gradients_k_v",
        "dead_entries",
        "tails",
        "weights",
        "logit_std",
        "collapse",
        "onset",
    ),
    "related": ("entropy", "gradients", "cosines"),
    "precision": ("errors",),
    "worked_example": ("projections", "attention", "gradients"),
    "training": ("curves", "steps", "rates", "noise"),
    "encoder_decoder": ("length", "curves"),
    "score_width": ("d_k",),
    "reach": ("distance",),
}

TABLES = {
    "scaling": ("summary", "exact", "crossings", "tails", "weights"),
    "related": ("summary", "exact", "cosines"),
    "precision": ("summary",),
    "worked_example": ("runs",),
    "training": ("summary", "rates", "twins"),
    "encoder_decoder": ("summary",),
    "score_width": ("summary",),
    "reach": ("summary",),
}
