"""The figures of each experiment, in the report's order. Their captions are in report/captions/."""

FIGURES = {
    "scaling": ("entropy", "max_weight", "gradients", "weights", "logit_std"),
}
