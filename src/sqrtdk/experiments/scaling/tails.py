"""Compute tails.csv: how a gradient is distributed over its rows, which a mean hides.

Row norms of several seeds of one n_k are pooled. A row of the table gives a norm, the share of
the rows with at least this norm, and the share of the squared norm that they have together.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from sqrtdk import schema
from sqrtdk.core import scale_rules
from sqrtdk.core.input_laws import Array, draw
from sqrtdk.core.kernel import Kernel
from sqrtdk.schema import Column, Settings
from sqrtdk.stats import intervals
from sqrtdk.storage import tables

MAX_SEEDS = 20
"""Maximum seeds pooled: with 64 queries each, the tail reaches one row in a thousand."""

SIZES = 4
"""Maximum values of d_k, spread over the grid."""

TAIL_GRADIENTS = ("logits", "q")

COLUMNS = (
    *(
        schema.axis_column(key)
        for key in (schema.D_K, schema.N_K, schema.N_Q, schema.INPUTS, schema.DTYPE, schema.SCALING)
    ),
    Column("gradient", "Array that the gradient is taken with respect to.", read=str, axis=True),
    Column("rows_share", "Share of the rows, the largest first.", "share", axis=True),
    Column("row_norm", "Smallest row norm among them, over √d_v."),
    Column(
        "energy_share",
        "Share of the total squared norm that they hold. Empty when every row is zero.",
        "share",
        optional=True,
    ),
    Column("n_seeds", "Number of seeds pooled.", "seeds", read=int),
)


def tail(norms: np.ndarray) -> Iterator[dict[str, float]]:
    """Yield the distribution of row norms [n], largest first, at ranks evenly spaced in their log.

    >>> [(row["rows_share"], row["energy_share"]) for row in tail(np.array([2.0, 2.0]))]
    [(0.5, 0.5), (1.0, 1.0)]
    """
    falling = np.sort(norms)[::-1]
    # Scaled by the largest, so that squares of tiny norms do not underflow.
    energy = np.cumsum(np.square(falling / (falling[0] or 1.0)))
    count = len(falling)
    ranks = np.unique(np.round(np.geomspace(1, count, 60)).astype(int))
    for rank in ranks.tolist():
        total = float(energy[-1])
        yield {
            "rows_share": rank / count,
            "row_norm": float(falling[rank - 1]),
            "energy_share": float(energy[rank - 1]) / total if total else np.nan,
        }


def rows(settings: Settings) -> Iterator[tables.Row]:
    """Yield the distribution of the gradients of logits and q, at the middle n_k."""
    n_k = settings["n_k"][len(settings["n_k"]) // 2]
    n_q, dtype, seeds = settings["n_q"][0], settings["dtype"][0], settings["seed"][:MAX_SEEDS]
    inputs, law = next(iter(settings["inputs"].items()))
    unit = settings["d_v"] ** -0.5
    core = Kernel()
    for d_k in intervals.evenly_spaced(settings["d_k"], SIZES):
        sizes = {"d_k": d_k, "n_k": n_k, "n_q": n_q}
        entries = settings["scaling"].items()
        rules = {name: scale_rules.rule(entry, d_k=d_k, n_k=n_k) for name, entry in entries}
        norms: dict[tuple[str, str], list[Array]] = {}
        # Keep only the norms of each seed: 20 draws with their gradients would fill the memory.
        for seed in seeds:
            arrays = draw(law, **sizes, d_v=settings["d_v"], seed=seed, dtype=dtype)
            q, k, v, g = (array[np.newaxis] for array in arrays)
            for scaling, found in zip(rules, core.measure(q, k, v, g, rules.values()), strict=True):
                for x in TAIL_GRADIENTS:
                    norms.setdefault((scaling, x), []).append(found.norms[x][0])
        for scaling, x in itertools.product(sorted(settings["scaling"]), TAIL_GRADIENTS):
            axes = sizes | {"inputs": inputs, "dtype": dtype, "scaling": scaling, "gradient": x}
            pooled = np.concatenate(norms[scaling, x]).astype(np.float64) * unit
            for point in tail(pooled):
                yield axes | point | {"n_seeds": len(seeds)}
