"""Measure attention under d_k^-p for many exponents p, all equal to 1/√d_k at d_k = 64.

The scale is 64^(p - 1/2) d_k^-p, so that exponents differ in what they do over d_k and not in how
sharp attention is. All exponents of a cell use the same draw.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from sqrtdk import schema
from sqrtdk.core.attention import scores, softmax
from sqrtdk.core.input_laws import draw
from sqrtdk.core.metrics import row_metrics
from sqrtdk.experiments.cells import Cell
from sqrtdk.schema import Column, Entry, Key
from sqrtdk.storage.tables import Row

ANCHOR = 64
"""The d_k at which all exponents give 1/√d_k, the usual size of a head."""

EXPONENT_STEPS = Key(
    "exponent_steps",
    "whole",
    "Steps of the exponent p of d_k^-p between 0 and 1; it goes on to 1.5 in the same steps.",
    maximum=200,
    axis=False,
)

CONFIG_KEYS: tuple[Key, ...] = (
    schema.D_K,
    schema.N_K,
    schema.N_Q,
    schema.INPUTS,
    EXPONENT_STEPS,
    schema.SEED,
)

BATCHED_AXES: tuple[str, ...] = ("d_k",)

COLUMNS: tuple[Column, ...] = (
    *(schema.axis_column(key) for key in (schema.D_K, schema.N_K, schema.N_Q, schema.INPUTS)),
    Column("exponent", "Exponent p of d_k^-p; 1/2 is √d_k, 1 is d_k.", axis=True),
    schema.axis_column(schema.SEED),
    Column("entropy_nats", "Entropy of the attention weights, mean over queries.", "nats"),
    Column(
        "match_weight",
        "Weight of the key i mod n_k for query i, mean over queries: of the match if the input "
        "law has one, otherwise of an ordinary key.",
        within=schema.SHARE,
    ),
    Column("max_weight", "Largest weight of a query, mean over queries.", within=schema.SHARE),
)


class Slab(schema.Slab):
    """The work of one shard job: all d_k, one n_k and input law, some seeds."""

    exponent_steps: int


class Settings(schema.Settings):
    """The values of the experiment's keys in a run."""

    exponent_steps: int


def exponents(steps: int) -> list[float]:
    """Return the exponents from 0 to 1.5, `steps` of them between 0 and 1.

    >>> exponents(4)
    [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5]
    """
    return [place / steps for place in range(3 * steps // 2 + 1)]


def scale(d_k: float, exponent: float) -> float:
    """Return the factor on the scores.

    >>> scale(64, 1.0), scale(256, 0.5)
    (0.125, 0.0625)
    """
    return float(ANCHOR ** (exponent - 0.5) * d_k**-exponent)


def memory(slab: Slab) -> int:
    """Return the peak memory of one cell in bytes, from the sizes of its arrays."""
    d_k = max(slab["d_k"]) if isinstance(slab["d_k"], list) else slab["d_k"]
    n_q, n_k = slab["n_q"], slab["n_k"]
    # q and k, twice while they are drawn; products, logits and the steps of the metrics.
    return int(8 * (2 * (n_q + n_k) * (d_k + 1) + 7 * n_q * n_k))


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    sizes = slab["d_k"] if isinstance(slab["d_k"], list) else [slab["d_k"]]
    n_q, n_k = slab["n_q"], slab["n_k"]
    each = 1.5 * slab["exponent_steps"] * (1.3e-4 + 8e-9 * n_q * n_k)
    return float(sum(1.5e-8 * (n_q + n_k) * d_k + each for d_k in sizes))


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield the axes of each cell of a slab, and the function that measures it."""
    ((inputs, law),) = slab["inputs"].items()
    sizes = slab["d_k"] if isinstance(slab["d_k"], list) else [slab["d_k"]]
    n_k, n_q = slab["n_k"], slab["n_q"]
    for d_k in sizes:
        for seed in range(*slab["seeds"]):
            axes: Row = {"d_k": d_k, "n_k": n_k, "n_q": n_q, "inputs": inputs, "seed": seed}
            yield axes, partial(measure, law, d_k, n_k, n_q, seed, slab["exponent_steps"])


def measure(law: Entry, d_k: int, n_k: int, n_q: int, seed: int, steps: int) -> list[Row]:
    """Measure one draw, with a row for each exponent."""
    arrays = draw(law, d_k=d_k, n_k=n_k, n_q=n_q, d_v=1, seed=seed, dtype="float64")
    product = scores(arrays.q, arrays.k)
    rows = np.arange(n_q)
    found: list[Row] = []
    for exponent in exponents(steps):
        logits = scale(d_k, exponent) * product
        metrics = row_metrics(logits)
        found.append(
            {
                "exponent": exponent,
                "entropy_nats": float(np.mean(metrics.entropy_nats)),
                "match_weight": float(np.mean(softmax(logits)[rows, rows % n_k])),
                "max_weight": float(np.mean(metrics.max_weight)),
            }
        )
    return found
