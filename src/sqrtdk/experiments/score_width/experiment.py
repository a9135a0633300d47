"""Score width: additive, dot and scaled dot attention against d_k, at several learning rates."""

from dataclasses import replace

from sqrtdk.experiments.base import Figure, Pivot, Table
from sqrtdk.experiments.encoder_decoder import experiment as encoder_decoder

EXPERIMENT = replace(
    encoder_decoder.EXPERIMENT,
    name="score_width",
    title="Score width: additive, dot and scaled dot attention against d_k, at "
    "several learning rates.",
    companion_of="encoder_decoder",
    tables=(
        Table(
            "widths",
            "widths",
            "How fast each kind of attention learns: one row per reader and d_k.",
            needs=("runs",),
            judges=True,
        ),
    ),
    figures=(Figure("d_k"),),
    pivot=Pivot(
        metrics=("accuracy", "steps_to_90", "asked_weight"), side="reader", also="published"
    ),
)
