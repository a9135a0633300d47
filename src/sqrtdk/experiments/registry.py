"""Every experiment by its name, which is also its file in conf/experiment/."""

from collections.abc import Iterable
from typing import Any, Protocol

from sqrtdk.cells import Cell
from sqrtdk.experiments import precision, related, scaling
from sqrtdk.keys import Column, Key


class Experiment(Protocol):
    """What the module of an experiment has."""

    __doc__: str | None

    @property
    def KEYS(self) -> tuple[Key, ...]:  # noqa: N802 - a module's constant
        """The configuration keys that it has."""

    @property
    def WITHIN(self) -> tuple[str, ...]:  # noqa: N802 - a module's constant
        """Axes beside seed and scaling that the cells of one slab share their draw over."""

    @property
    def FACTORS_ONLY(self) -> bool:  # noqa: N802 - a module's constant
        """Whether it takes only scale rules that are one factor of d_k and n_k."""

    @property
    def HAS_THEORY(self) -> bool:  # noqa: N802 - a module's constant
        """Whether its columns are those that `theory` has expectations of."""

    @property
    def COLUMNS(self) -> tuple[Column, ...]:  # noqa: N802 - a module's constant
        """The columns of its runs.csv."""

    def cells(self, slab: dict[str, Any]) -> Iterable[Cell]:
        """The cells of one slab."""

    def memory(self, slab: dict[str, Any]) -> int:
        """Bytes that one cell of a slab takes at its peak."""


EXPERIMENTS: dict[str, Experiment] = {
    "scaling": scaling,
    "related": related,
    "precision": precision,
}
