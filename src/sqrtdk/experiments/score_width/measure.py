"""Score width: additive, dot and scaled dot attention against d_k, at several learning rates.

The cells and columns of `encoder_decoder`, on a separate grid at one source length.
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
