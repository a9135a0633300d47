"""Give the order of the claims, which is that of the chapter."""

ORDER = (
    "average",
    "graded",
    "scores_grow",
    "scores_stable",
    "saturation",
    "one_hot",
    "gradients_typical",
    "stable",
    "from_64",
    "gradients_rms",
    "gradients_related",
    "inverse",
    "half_precision",
    "agreement",
    "training",
    "stability",
    "training_twin",
    "projections",
    "bottleneck",
    "capacity",
    "score_width",
    "reach",
    "vanishing",
)
"""Names of claims; those of other experiments come after them."""
