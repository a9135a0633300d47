"""Measure the entropy of attention weights whose scores were divided by a temperature."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from sqrtdk import schema
from sqrtdk.core.attention import scores
from sqrtdk.core.metrics import row_metrics
from sqrtdk.experiments.cells import Cell
from sqrtdk.schema import Column, Key
from sqrtdk.storage.tables import Row

TEMPERATURE = Key("temperature", "number", "The scores are divided by √d_k and by this number.")

CONFIG_KEYS = (schema.D_K, schema.N_K, TEMPERATURE, schema.SEED)

COLUMNS = (
    *(schema.axis_column(key) for key in CONFIG_KEYS),
    Column("entropy", "Entropy of the weights of a query, mean over queries.", "nats"),
)


class Slab(schema.Slab):
    """The work of one shard job: one temperature, and several seeds."""

    temperature: float


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield the axes of each cell of a slab, and the function that measures it."""
    d_k, n_k, temperature = slab["d_k"], slab["n_k"], slab["temperature"]
    for seed in range(*slab["seeds"]):
        axes: Row = {"d_k": d_k, "n_k": n_k, "temperature": temperature, "seed": seed}
        yield axes, partial(measure, d_k, n_k, temperature, seed)


def measure(d_k: int, n_k: int, temperature: float, seed: int) -> Row:
    """Measure one cell."""
    random = np.random.default_rng([seed, d_k, n_k])
    q, k = random.standard_normal((2, n_k, d_k))
    logits = scores(q, k) / (d_k**0.5 * temperature)
    return {"entropy": float(np.mean(row_metrics(logits).entropy_nats))}
