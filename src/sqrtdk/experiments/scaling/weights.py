"""Compute weights.csv: whole weight matrices of a few cells, in which saturation is visible.

They are the cells of the grid's first seed, the same draw that runs.csv measures.
"""

from collections.abc import Iterator

import numpy as np

from sqrtdk.core import scale_rules
from sqrtdk.core.attention import attention
from sqrtdk.core.input_laws import draw
from sqrtdk.experiments.scaling.measure import AXES
from sqrtdk.schema import Column, Settings
from sqrtdk.stats import intervals
from sqrtdk.storage import tables

SHOWN_ROWS = 16
"""Number of queries and keys shown: more cannot be distinguished on a page."""

PANELS = 5
"""Number of d_k shown, spread over the grid from its smallest to its largest."""

COLUMNS = (
    *AXES,
    Column("query", "Position of the query, from 0.", read=int, axis=True),
    Column("key", "Position of the key, from 0.", read=int, axis=True),
    Column("weight", "Attention weight that the query gives to the key."),
)


def rows(settings: Settings) -> Iterator[tables.Row]:
    """Weights of the first queries and keys at the smallest n_k, by d_k and scale rule."""
    n_k, n_q, seed = settings["n_k"][0], settings["n_q"][0], settings["seed"][0]
    inputs, law = next(iter(settings["inputs"].items()))
    dtype = settings["dtype"][0]
    for d_k in intervals.evenly_spaced(settings["d_k"], PANELS):
        sizes = {"d_k": d_k, "n_k": n_k, "n_q": n_q}
        arrays = draw(law, **sizes, d_v=settings["d_v"], seed=seed, dtype=dtype)
        for scaling, rule in sorted(settings["scaling"].items()):
            scale = scale_rules.rule(rule, d_k=d_k, n_k=n_k)
            weights = attention(arrays.q, arrays.k, arrays.v, scale=scale).weights
            shown = weights[:SHOWN_ROWS, :SHOWN_ROWS]
            axes: tables.Row = {
                "inputs": inputs,
                "dtype": dtype,
                "scaling": scaling,
                "seed": seed,
            }
            for (query, key), weight in np.ndenumerate(shown):
                yield axes | sizes | {"query": query, "key": key, "weight": float(weight)}
