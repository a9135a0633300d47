"""How a gradient is spread over its rows: the tail that a mean hides.

Row norms of several seeds of one n_k are pooled. Reading one row of the table: so large a share
of the rows has at least this norm, and together they hold this share of the squared norm.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sqrtdk import config, examples, keys, scales, tables
from sqrtdk.attention import attention
from sqrtdk.gradients import gradients
from sqrtdk.inputs import draw
from sqrtdk.keys import Column
from sqrtdk.metrics import row_norms

SEEDS = 20
"""Seeds pooled at most: with 64 queries each, the tail reaches one row in a thousand."""

SIZES = 4
"""Values of d_k at most, spread over the grid."""

GRADIENTS = ("logits", "q")

COLUMNS = (
    *(
        keys.axis_column(key)
        for key in (keys.D_K, keys.N_K, keys.N_Q, keys.INPUTS, keys.DTYPE, keys.SCALING)
    ),
    Column("gradient", "With respect to what.", read=str, axis=True),
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
    """The distribution of row norms [n], from the largest on, at ranks evenly spaced in their log.

    >>> [(row["rows_share"], row["energy_share"]) for row in tail(np.array([2.0, 2.0]))]
    [(0.5, 0.5), (1.0, 1.0)]
    """
    falling = np.sort(norms)[::-1]
    # Scaled by the largest, so that squares of tiny norms do not vanish.
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


def rows(settings: Mapping[str, Any]) -> Iterator[tables.Row]:
    """The spread of the gradients by logits and q, at the middle n_k, by d_k and scale rule."""
    n_k = settings["n_k"][len(settings["n_k"]) // 2]
    n_q, dtype, seeds = settings["n_q"][0], settings["dtype"][0], settings["seed"][:SEEDS]
    inputs, law = next(iter(settings["inputs"].items()))
    unit = settings["d_v"] ** -0.5
    for d_k in examples.spread(settings["d_k"], SIZES):
        sizes = {"d_k": d_k, "n_k": n_k, "n_q": n_q}
        draws = [draw(law, **sizes, d_v=settings["d_v"], seed=s, dtype=dtype) for s in seeds]
        for scaling, entry in sorted(settings["scaling"].items()):
            rule = scales.rule(entry, d_k=d_k, n_k=n_k)
            axes = sizes | {"inputs": inputs, "dtype": dtype, "scaling": scaling}
            found = [
                gradients(*arrays, attention(*arrays[:3], scale=rule), scale=rule)
                for arrays in draws
            ]
            for x in GRADIENTS:
                pooled = np.concatenate([row_norms(getattr(one, x)) for one in found])
                for point in tail(pooled.astype(np.float64) * unit):
                    yield axes | {"gradient": x} | point | {"n_seeds": len(seeds)}


def main() -> None:
    """Write the tails of the run whose config is named first to the second path."""
    settings = config.load(Path(sys.argv[1])).settings["scaling"]
    tables.write_atomically(Path(sys.argv[2]), tables.text(rows(settings), COLUMNS))


if __name__ == "__main__":
    main()
