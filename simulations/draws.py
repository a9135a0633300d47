"""Draw many cells of `scaling` at small cost: the exact law of a cell, for any d_k.

A cell's metrics depend on q and k only through q kᵀ and the Gram matrices of q and of k. Rotate so
that the keys span the first n_k axes. Then k is a lower triangular matrix with independent entries
(Bartlett 1933), normal below the diagonal and chi on it. The first n_k entries of the queries are
normal, and the rest of their Gram matrix is that of another triangular matrix. So n_k + n_q
entries are enough for any d_k, and nothing is approximated.
"""

import numpy as np
from numpy.typing import NDArray

from sqrtdk.core import scale_rules
from sqrtdk.core.input_laws import Inputs
from sqrtdk.core.kernel import Kernel
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.schema import Entries

RULES: Entries = {"off": {"rule": "constant", "value": 1}, "on": {"rule": "power", "exponent": 0.5}}

BATCH = 64
"""Number of cells that are computed together."""

Pool = dict[str, dict[str, NDArray[np.float64]]]
"""Every metric of many seeds, by scale rule and column."""


def triangular(rng: np.random.Generator, cells: int, n: int, d: int) -> NDArray[np.float64]:
    """Return [cells, n, n] with the Gram matrix of n independent standard normal d-vectors."""
    found = np.tril(rng.standard_normal((cells, n, n)), -1)
    place = np.arange(n)
    found[:, place, place] = np.sqrt(rng.chisquare(d - place, (cells, n)))
    return found


def draw(rng: np.random.Generator, cells: int, *, d_k: int, n_k: int, n_q: int, d_v: int) -> Inputs:
    """Return arrays whose metrics have the law of those of independent normal entries."""
    v = rng.standard_normal((cells, n_k, d_v))
    g = rng.standard_normal((cells, n_q, d_v))
    if d_k < n_k + n_q:
        shapes = (cells, n_q, d_k), (cells, n_k, d_k)
        return Inputs(rng.standard_normal(shapes[0]), rng.standard_normal(shapes[1]), v, g)
    along = rng.standard_normal((cells, n_q, n_k))
    q = np.concatenate([along, triangular(rng, cells, n_q, d_k - n_k)], axis=-1)
    k = np.concatenate([triangular(rng, cells, n_k, d_k), np.zeros((cells, n_k, n_q))], axis=-1)
    return Inputs(q, k, v, g)


def pool(seeds: int, *, d_k: int, n_k: int, n_q: int = 64, d_v: int = 64) -> Pool:
    """Return the metrics of independent seeds of one size, with both scale rules on the same draw.

    The numbers depend on the arguments only.
    """
    rng = np.random.default_rng([d_k, n_k, n_q, d_v])
    core = Kernel()
    rules = [scale_rules.rule(entry, d_k=d_k, n_k=n_k) for entry in RULES.values()]
    parts: dict[str, list[dict[str, NDArray[np.float64]]]] = {arm: [] for arm in RULES}
    for start in range(0, seeds, BATCH):
        cells = min(BATCH, seeds - start)
        arrays = draw(rng, cells, d_k=d_k, n_k=n_k, n_q=n_q, d_v=d_v)
        for arm, found in zip(RULES, scaling.measure(core, arrays, rules), strict=True):
            # Rows of Python numbers take ten times the memory.
            parts[arm].append({name: np.array([row[name] for row in found]) for name in found[0]})
    return {
        arm: {name: np.concatenate([part[name] for part in found]) for name in found[0]}
        for arm, found in parts.items()
    }
