"""Register every experiment under its name, which is also its file in conf/experiment/."""

from collections.abc import Iterable
from typing import Any, Protocol

from sqrtdk.experiments.capacity import measure as capacity
from sqrtdk.experiments.cells import Cell
from sqrtdk.experiments.encoder_decoder import measure as encoder_decoder
from sqrtdk.experiments.precision import measure as precision
from sqrtdk.experiments.projections import measure as projections
from sqrtdk.experiments.reach import measure as reach
from sqrtdk.experiments.related import measure as related
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.experiments.score_width import measure as score_width
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.worked_example import measure as worked_example
from sqrtdk.schema import Column, Key


class Experiment(Protocol):
    """The interface of an experiment's measuring module."""

    __doc__: str | None

    KEYS: tuple[Key, ...]
    """The configuration keys that it has."""
    WITHIN: tuple[str, ...]
    """Axes, other than seed and scaling, over which the cells of one slab share their draw."""
    FACTORS_ONLY: bool
    """True if it takes only scale rules that are one factor of d_k and n_k."""
    HAS_THEORY: bool
    """True if `theory` has expectations for its columns."""
    COLUMNS: tuple[Column, ...]
    """The columns of its runs.csv."""
    ROW: str
    """The meaning of one of its rows, in a sentence."""

    def cells(self, slab: dict[str, Any]) -> Iterable[Cell]:
        """Return the cells of one slab."""

    def memory(self, slab: dict[str, Any]) -> int:
        """Return the peak memory of a job in bytes, beyond its imports, from the slab's sizes."""

    def seconds(self, slab: dict[str, Any]) -> float:
        """Return the approximate time of one seed of a slab on one core, for the progress line."""


EXPERIMENTS: dict[str, Experiment] = {
    "scaling": scaling,
    "related": related,
    "precision": precision,
    "worked_example": worked_example,
    "training": training,
    "projections": projections,
    "encoder_decoder": encoder_decoder,
    "capacity": capacity,
    "score_width": score_width,
    "reach": reach,
}

EXAMPLES = frozenset({"worked_example"})
"""Experiments that are one example, not a sample: keys for all experiments do not change their
numbers, and nothing is summarized over their seeds."""


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
