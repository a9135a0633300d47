"""Scale rules under input laws: which rule holds where the vectors are not unrelated.

The cells and columns of `scaling`, on a grid of their own with many rules and laws.
"""

from sqrtdk.cells import main
from sqrtdk.experiments.scaling import (
    COLUMNS,
    FACTORS_ONLY,
    HAS_THEORY,
    KEYS,
    ROW,
    WITHIN,
    cells,
    memory,
    seconds,
)

__all__ = [
    "COLUMNS",
    "FACTORS_ONLY",
    "HAS_THEORY",
    "KEYS",
    "ROW",
    "WITHIN",
    "cells",
    "memory",
    "seconds",
]

if __name__ == "__main__":
    main(cells, KEYS, COLUMNS)
