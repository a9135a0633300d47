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
    "projections": ("accuracy",),
    "encoder_decoder": ("length", "curves"),
    "capacity": ("hidden",),
    "score_width": ("d_k",),
    "reach": ("distance",),
}

TABLES = {
    "scaling": ("summary", "exact", "crossings", "tails", "weights"),
    "related": ("summary", "exact", "cosines"),
    "precision": ("summary",),
    "worked_example": ("runs",),
    "training": ("summary", "rates", "twins"),
    "projections": ("summary",),
    "encoder_decoder": ("summary",),
    "capacity": ("summary",),
    "score_width": ("summary",),
    "reach": ("summary",),
}
