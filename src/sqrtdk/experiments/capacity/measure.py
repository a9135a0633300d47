"""Capacity: what a fixed vector holds after long training, against the size of the state.

The cells and columns of `encoder_decoder`, on a separate grid with much longer training, so that a
state that is too small can be distinguished from one that is not trained enough.
"""

from sqrtdk.experiments.cells import main
from sqrtdk.experiments.encoder_decoder.measure import (
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
