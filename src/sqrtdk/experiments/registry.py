"""Every experiment by its name, which is also its file in conf/experiment/."""

from collections.abc import Iterable
from typing import Any, Protocol

from sqrtdk.cells import Cell
from sqrtdk.experiments import (
    encoder_decoder,
    precision,
    reach,
    related,
    scaling,
    score_width,
)
from sqrtdk.keys import Column, Key


class Experiment(Protocol):
    """What the module of an experiment has."""

    __doc__: str | None

    KEYS: tuple[Key, ...]
    """The configuration keys that it has."""
    WITHIN: tuple[str, ...]
    """Axes beside seed and scaling that the cells of one slab share their draw over."""
    FACTORS_ONLY: bool
    """Whether it takes only scale rules that are one factor of d_k and n_k."""
    HAS_THEORY: bool
    """Whether its columns are those that `theory` has expectations of."""
    COLUMNS: tuple[Column, ...]
    """The columns of its runs.csv."""

    def cells(self, slab: dict[str, Any]) -> Iterable[Cell]:
        """The cells of one slab."""

    def memory(self, slab: dict[str, Any]) -> int:
        """Bytes that one cell of a slab takes at its peak."""


EXPERIMENTS: dict[str, Experiment] = {
    "scaling": scaling,
    "related": related,
    "precision": precision,
    "encoder_decoder": encoder_decoder,
    "score_width": score_width,
    "reach": reach,
}
