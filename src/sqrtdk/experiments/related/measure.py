"""Scale rules under input laws: which rule works if the vectors are related.

The cells and columns of `scaling`, on a separate grid with many rules and laws, and further columns
for what attention selects.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from sqrtdk import schema
from sqrtdk.core.attention import ScaleRule, attention
from sqrtdk.core.input_laws import Array, Inputs
from sqrtdk.core.kernel import Kernel
from sqrtdk.experiments.cells import Cell
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.schema import Column, Slab
from sqrtdk.storage.tables import Row

CONFIG_KEYS = scaling.CONFIG_KEYS

COLUMNS = (
    *scaling.COLUMNS,
    Column(
        "match_weight",
        "Weight of the key i mod n_k for query i, mean over queries: of the match if the input "
        "law has one, otherwise of an ordinary key.",
        within=schema.SHARE,
    ),
    Column(
        "weight_sum_error",
        "Absolute difference of the sum of a query's weights from 1, maximum over queries.",
    ),
    Column(
        "output_excess",
        "Distance of an entry of the output from the range of that entry over the values, the "
        "largest over queries and entries. 0 where each output is an average of the values.",
    ),
)


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    # The further columns are measured from the definitions, a second forward pass.
    return 1.5 * scaling.seconds(slab)


def memory(slab: Slab) -> int:
    """Return the peak memory, in bytes, of computing one batch of cells of a slab."""
    n_q, n_k, d_k, d_v = slab["n_q"], slab["n_k"], slab["d_k"], slab["d_v"]
    # The second forward pass is not in blocks: products, scores, two steps of the softmax and
    # weights; q and k once more for rules that change them; the output, and its two distances.
    forward = 5 * n_q * n_k + (n_q + n_k) * d_k + 3 * n_q * d_v
    return scaling.memory(slab) + 8 * forward


def cells(slab: Slab) -> Iterator[Cell]:
    """Return the cells of one slab, seed by seed, each with the function that measures it."""
    return scaling.cells_of(slab, measure)


def measure(core: Kernel, arrays: Inputs, rules: Sequence[ScaleRule]) -> list[list[Row]]:
    """Measure the columns of `scaling`, and the further columns, for each rule and cell."""
    found = scaling.measure(core, arrays, rules)
    for rows, rule in zip(found, rules, strict=True):
        for row, q, k, v in zip(rows, arrays.q, arrays.k, arrays.v, strict=True):
            weights, output = attention(q, k, v, scale=rule)[2:]
            row.update(selected(weights, output, v))
    return found


def selected(weights: Array, output: Array, v: Array) -> Row:
    """Return the further columns of one cell; weights [n_q, n_k], output [n_q, d_v], v [n_k, d_v].

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
