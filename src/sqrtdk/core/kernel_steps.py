"""Share buffers and element-wise steps between the parts of the kernel."""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from sqrtdk.core import metrics
from sqrtdk.core.shapes import Bool, Float, Floats, Int, Mask

STRIP_ENTRIES = 2**15
"""Scores that all element-wise steps process before the next ones, so that their arrays stay in
a core's cache."""


class Buffers:
    """Arrays of undefined content that are used again from call to call."""

    def __init__(self) -> None:
        """Begin with no memory."""
        self._kept: dict[tuple[str, np.dtype], Floats] = {}

    def get(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> Floats:
        """Return an array of undefined content; the next one of the same name reuses its memory."""
        size = math.prod(shape)
        kept = self._kept.get((name, dtype))
        if kept is None or kept.size < size:
            kept = self._kept[name, dtype] = np.empty(size, dtype)
        return kept[:size].reshape(shape)


def product(
    x: Float[Floats, "cells n d"], y: Float[Floats, "cells m d"], out: Float[Floats, "cells n m"]
) -> Float[Floats, "cells n m"]:
    """Return products of all rows of x [cells, n, d] with all of y [cells, m, d], [cells, n, m]."""
    if x.shape[-1] == 1:
        # matmul has no fast loop for one column.
        return np.multiply(x, np.swapaxes(y, -1, -2), out=out)
    return np.matmul(x, np.swapaxes(y, -1, -2), out=out)


def count_true(mask: Bool[Mask, "cells rows n_k"]) -> Int[NDArray[np.intp], "cells"]:
    """Count the true entries of each cell, [cells, rows, n_k] -> [cells]."""
    flat = mask.reshape(len(mask), -1)
    if len(flat) == 1 or flat.shape[1] % 8:
        return np.array([np.count_nonzero(one) for one in flat])
    # Eight at a time: one call for each small cell would cost more than its exponentials.
    found: NDArray[np.intp] = np.sum(np.bitwise_count(flat.view(np.uint64)), axis=-1, dtype=np.intp)
    return found


def chunks(where: Bool[Mask, "cells rows"], width: int) -> Iterator[tuple[NDArray[np.intp], ...]]:
    """Yield indices of the true entries, in chunks of rows of this width that fill a strip."""
    if where.any():
        index = np.nonzero(where)
        step = max(1, STRIP_ENTRIES // width)
        for start in range(0, len(index[0]), step):
            yield tuple(axis[start : start + step] for axis in index)


def safe_norms(
    square: Float[Floats, "cells rows"],
    rows: Callable[[tuple[NDArray[np.intp], ...]], Floats],
    width: int,
) -> Float[Floats, "cells rows"]:
    """Return norms from their squares, or from the rows where the squares over- or underflow."""
    limits = np.finfo(square.dtype)
    norms = np.sqrt(square)
    for index in chunks(~((square >= limits.tiny / limits.eps) & (square < np.inf)), width):
        norms[index] = metrics.row_norms(rows(index))
    return norms


def row_major(x: Float[Floats, "cells n m"]) -> Float[Floats, "cells _ _"]:
    """Return a matrix in row-major order: itself or its transpose, whichever memory holds."""
    return x if x.flags.c_contiguous else np.swapaxes(x, -1, -2)
