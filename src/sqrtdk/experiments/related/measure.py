"""Scale rules under input laws: which rule holds where the vectors are not unrelated.

The cells and columns of `scaling`, on a grid of their own with many rules and laws, and at the end
the columns that show what attention selects.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sqrtdk.core.attention import ScaleRule, attention
from sqrtdk.core.input_laws import Array, Inputs
from sqrtdk.core.kernel import Kernel
from sqrtdk.experiments.cells import Cell
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.schema import Column
from sqrtdk.storage.tables import Row

COLUMNS = (
    *scaling.COLUMNS,
    Column(
        "match_weight",
        "Weight of the key i mod n_k for query i, mean over queries: of the match where the input "
        "law has one, else of a key like any other.",
    ),
    Column(
        "weight_sum_error",
        "How far the weights of a query are from summing to 1, the largest over queries.",
    ),
    Column(
        "output_excess",
        "How far an entry of the output lies outside the range of that entry over the values, the "
        "largest over queries and entries. 0 where each output is an average of the values.",
    ),
)


def seconds(slab: dict[str, Any]) -> float:
    """About how long one seed of a slab takes on one core."""
    # What attention selects is measured from the definitions, a second forward pass.
    return 1.5 * scaling.seconds(slab)


def cells(slab: dict[str, Any]) -> Iterator[Cell]:
    """The cells of one slab, seed by seed, each with the function that measures it."""
    return scaling.cells_of(slab, measure)


def measure(core: Kernel, arrays: Inputs, rules: Sequence[ScaleRule]) -> list[list[Row]]:
    """Measure the columns of `scaling`, and what attention selects, for each rule and cell."""
    found = scaling.measure(core, arrays, rules)
    for rows, rule in zip(found, rules, strict=True):
        for row, q, k, v in zip(rows, arrays.q, arrays.k, arrays.v, strict=True):
            weights, output = attention(q, k, v, scale=rule)[2:]
            row.update(selected(weights, output, v))
    return found


def selected(weights: Array, output: Array, v: Array) -> Row:
    """Return what one cell selects; weights [n_q, n_k], output [n_q, d_v], v [n_k, d_v].

    >>> selected(np.eye(2), np.eye(2), np.eye(2))
    {'match_weight': 1.0, 'weight_sum_error': 0.0, 'output_excess': 0.0}
    """
    n_q, n_k = weights.shape
    match = weights[np.arange(n_q), np.arange(n_q) % n_k]
    sums = np.sum(weights, axis=-1, dtype=np.float64)
    excess = np.maximum(output - v.max(axis=0), v.min(axis=0) - output)
    return {
        "match_weight": float(np.mean(match, dtype=np.float64)),
        "weight_sum_error": float(np.max(np.abs(sums - 1.0))),
        "output_excess": max(0.0, float(np.max(excess))),
    }
