"""Look up and sum rows by symbol: the embeddings of the recurrent models, and their gradients."""

from functools import cache
from typing import Any

import numpy as np

from sqrtdk.core.shapes import Float, Floats, Int, Ints

ONE_HOT_MAX = 32
"""Number of symbols up to which a product with ones and zeros sums faster than bins. For more
symbols the memory of the zeros would grow with the square of the length. Changes the order of a
sum."""


def by_symbol(
    symbols: Int[Ints, "runs length batch"], rows: Float[Floats, "runs rows n"], count: int
) -> Float[Floats, "runs {count} n"]:
    """Sum the rows [n_runs, length * batch, n] of each symbol, [n_runs, count, n]."""
    if count <= ONE_HOT_MAX:
        ones = one_hot(symbols, count, rows.dtype).reshape(len(rows), -1, count)
        return np.swapaxes(ones, 1, 2) @ rows
    found = np.empty((len(rows), count, rows.shape[-1]), rows.dtype)
    for run, unit in np.ndindex(len(rows), rows.shape[-1]):
        # Row by row, so that the order of a sum does not depend on the other runs.
        found[run, :, unit] = np.bincount(symbols[run].ravel(), rows[run, :, unit], count)
    return found


def one_hot(
    symbols: Int[Ints, "*symbols"], count: int, dtype: np.dtype[Any]
) -> Float[Floats, "*symbols {count}"]:
    """Turn symbols [...] into one-hot vectors [..., count]."""
    found: Floats = np.take(_unit_vectors(count, dtype), symbols, axis=0)
    return found


@cache
def _unit_vectors(count: int, dtype: np.dtype[Any]) -> Floats:
    return np.eye(count, dtype=dtype)


def rows_of(
    table: Float[Floats, "runs count n"], symbols: Int[Ints, "runs *symbols"]
) -> Float[Floats, "runs *symbols n"]:
    """Return the row of each symbol [n_runs, ...] from the table of its run, [n_runs, ..., n]."""
    n_runs, count, n = table.shape
    first = count * np.arange(n_runs).reshape(-1, *[1] * (symbols.ndim - 1))
    # One index for both axes: NumPy copies whole rows then, which is three times faster.
    found: Floats = np.take(table.reshape(n_runs * count, n), first + symbols, axis=0)
    return found
