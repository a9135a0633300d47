"""Compute one_query.csv: the largest weights of one query at every size, for the page's figure.

It is the query in the middle of its draw, by its largest weight without scaling, so that it is
neither lucky nor unlucky. All scale rules show the same query of the same draw.
"""

from collections.abc import Iterator

import numpy as np

from sqrtdk.core import scale_rules
from sqrtdk.core.attention import attention
from sqrtdk.core.input_laws import draw
from sqrtdk.experiments.scaling.measure import AXES
from sqrtdk.schema import Column, Settings
from sqrtdk.stats import intervals
from sqrtdk.stats.series import unscaled_rule
from sqrtdk.storage import tables

RANKS = 32
"""Weights listed: beyond them no single key is heard."""

WIDTHS, LENGTHS = 13, 4
"""Maximum values of d_k and n_k, spread over the grid."""

COLUMNS = (
    *AXES,
    Column("query", "Position of the query in its draw, from 0.", read=int),
    Column("rank", "Rank of the key's weight among those of the query, from 1.", read=int,
           axis=True),
    Column("weight", "The weight."),
)  # fmt: skip


def rows(settings: Settings) -> Iterator[tables.Row]:
    """Yield the largest weights of the middle query of the first seed, by size and scale rule."""
    n_q, seed, dtype = settings["n_q"][0], settings["seed"][0], settings["dtype"][0]
    inputs, law = next(iter(settings["inputs"].items()))
    reference = unscaled_rule(settings["scaling"]) or min(settings["scaling"])
    for d_k in intervals.evenly_spaced(settings["d_k"], WIDTHS):
        for n_k in intervals.evenly_spaced(settings["n_k"], LENGTHS):
            sizes = {"d_k": d_k, "n_k": n_k, "n_q": n_q}
            q, k, v, _ = draw(law, **sizes, d_v=settings["d_v"], seed=seed, dtype=dtype)
            found = {}
            for scaling, entry in sorted(settings["scaling"].items()):
                rule = scale_rules.rule(entry, d_k=d_k, n_k=n_k)
                found[scaling] = attention(q, k, v, scale=rule).weights
            query = int(np.argsort(found[reference].max(axis=1), kind="stable")[n_q // 2])
            for scaling, weights in found.items():
                axes: tables.Row = {
                    **sizes,
                    "inputs": inputs,
                    "dtype": dtype,
                    "scaling": scaling,
                    "seed": seed,
                }
                largest = np.sort(weights[query])[::-1][:RANKS]
                for rank, weight in enumerate(largest.tolist(), start=1):
                    yield axes | {"query": query, "rank": rank, "weight": weight}
