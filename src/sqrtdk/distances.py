"""How much weight a query gives to keys near and far: attention does not know the distance.

Positions are those in the sequence. An output depends on a value with exactly its weight, so the
same numbers say how much gradient reaches a position.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sqrtdk import estimates, examples, keys, scales, tables
from sqrtdk.attention import attention
from sqrtdk.inputs import Array, draw
from sqrtdk.keys import Column

SEEDS = 50
"""Seeds at most: the mean of a quarter is then known to about half a percent."""

QUARTERS = 4

COLUMNS = (
    *(
        keys.axis_column(key)
        for key in (keys.D_K, keys.N_K, keys.N_Q, keys.INPUTS, keys.DTYPE, keys.SCALING)
    ),
    Column(
        "quarter", "Quarter of the distances, 1 the nearest, 4 the farthest.", read=int, axis=True
    ),
    Column("n_seeds", "Number of seeds: the sample size.", "seeds", read=int),
    Column("relative_weight", "Mean weight times n_k: 1 is an equal share."),
    Column("ci_low", "Lower end of its 95 % t-interval.", optional=True),
    Column("ci_high", "Upper end of its 95 % t-interval.", optional=True),
)


def by_quarter(weights: Array) -> Array:
    """Mean weight times n_k by quarter of the distance |query - key|; weights [n_q, n_k].

    Positions are spread over the same length where n_q and n_k differ.

    >>> by_quarter(np.full((4, 4), 0.25)).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    n_q, n_k = weights.shape
    distance = np.abs((np.arange(n_q)[:, np.newaxis] + 0.5) / n_q - (np.arange(n_k) + 0.5) / n_k)
    quarter = np.minimum((distance * QUARTERS).astype(int), QUARTERS - 1)
    with np.errstate(invalid="ignore"):
        total = np.bincount(quarter.ravel(), weights.ravel(), QUARTERS)
        found: Array = n_k * total / np.bincount(quarter.ravel(), minlength=QUARTERS)
    return found


def rows(settings: Mapping[str, Any]) -> Iterator[tables.Row]:
    """Relative weight by quarter of the distance, at the middle of the grid, by scale rule."""
    d_k, n_k, n_q = (settings[x][len(settings[x]) // 2] for x in ("d_k", "n_k", "n_q"))
    sizes = {"d_k": d_k, "n_k": n_k, "n_q": n_q}
    inputs, law = next(iter(settings["inputs"].items()))
    dtype, seeds = settings["dtype"][0], settings["seed"][:SEEDS]
    for scaling, entry in sorted(settings["scaling"].items()):
        rule = scales.rule(entry, d_k=d_k, n_k=n_k)
        found = []
        for seed in seeds:
            # With the d_v of the grid, which is part of the key of a stream: these are its cells.
            arrays = draw(law, **sizes, d_v=settings["d_v"], seed=seed, dtype=dtype)
            weights = attention(arrays.q, arrays.k, arrays.v, scale=rule).weights
            found.append(by_quarter(weights.astype(np.float64)))
        axes = sizes | {"inputs": inputs, "dtype": dtype, "scaling": scaling}
        for place, values in enumerate(np.transpose(found)):
            if not np.isnan(values).any():
                low, high = estimates.interval(values)
                yield axes | {
                    "quarter": place + 1,
                    "n_seeds": len(seeds),
                    "relative_weight": float(values.mean()),
                    "ci_low": low,
                    "ci_high": high,
                }


if __name__ == "__main__":
    examples.main(rows, COLUMNS)
