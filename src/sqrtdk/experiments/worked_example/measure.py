"""Attention by hand: three tokens of four dimensions, every array from x to the gradient.

This is one small example whose numbers a text prints, not a sample. It has one draw, with and
without scaling.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from sqrtdk import schema
from sqrtdk.core.attention import attention, project
from sqrtdk.core.gradients import gradients
from sqrtdk.core.metrics import row_metrics
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.cells import Cell
from sqrtdk.schema import Column, Key, Slab
from sqrtdk.storage.tables import Row

TOKENS, DIMENSIONS = 3, 4

WEIGHT_SD = 0.5
"""Standard deviation of the entries of W_q, W_k and W_v."""

ARMS = {"off": 1.0, "on": DIMENSIONS**-0.5}
"""The factor of each scale rule. A run may change the entries of `scale_rules`, but not these."""

SEED = replace(
    schema.SEED,
    meaning="Seed of NumPy's legacy generator. As the example's numbers are printed elsewhere, "
    "only worked_example='{seed: 7}' changes it; seed and seeds for all experiments do not.",
)

CONFIG_KEYS: tuple[Key, ...] = (SEED,)
BATCHED_AXES: tuple[str, ...] = ()


class Array(NamedTuple):
    """One array of the example: its meaning, and the meaning of its rows and columns.

    `names` are the names of the columns, if they are not numbered with the word `columns`.
    """

    meaning: str
    rows: str
    columns: str
    names: tuple[str, ...] = ()


OF_ROWS = ("entropy_nats", "max_weight", "sum")
"""Per-row statistics, in alphabetical order as in the table."""

ARRAYS = {
    "x": Array("the tokens", "token", "dim"),
    "W_q": Array("weight matrix of the queries", "dim", "dim"),
    "W_k": Array("weight matrix of the keys", "dim", "dim"),
    "W_v": Array("weight matrix of the values", "dim", "dim"),
    "q": Array("queries, x W_q", "token", "dim"),
    "k": Array("keys, x W_k", "token", "dim"),
    "v": Array("values, x W_v", "token", "dim"),
    "scores": Array("scores, q kᵀ", "token", "key"),
    "sqrt_d_k": Array("√d_k", "all", "all"),
    "scale": Array("factor of the scores: 1 (off) or 1/√d_k (on)", "all", "all"),
    "logits": Array("logits, scores times scale", "token", "key"),
    "weights": Array("weights, softmax of each row of the logits", "token", "key"),
    "weight_rows": Array("entropy, largest and sum of each row of weights", "token", "", OF_ROWS),
    "output": Array("output, weights v", "token", "dim"),
    "grad_logits": Array(
        "gradient with respect to the logits of the sum of the output", "token", "key"
    ),
    "grad_scores": Array("the same with respect to the scores", "token", "key"),
    "grad_q": Array("the same with respect to q", "token", "dim"),
    "grad_k": Array("the same with respect to k", "token", "dim"),
    "grad_v": Array("the same with respect to v", "token", "dim"),
}
"""Every array in the order of the computation."""

COLUMNS: tuple[Column, ...] = (
    replace(
        schema.axis_column(schema.SCALING),
        meaning="off: the scores as they are; on: over √d_k. Arrays before the scale have the same "
        "entries under both.",
    ),
    schema.axis_column(SEED),
    Column("step", "Place of the array in the computation, from 1.", read=int, axis=True),
    Column(
        "array",
        f"Name of the array: {'; '.join(f'{name}: {a.meaning}' for name, a in ARRAYS.items())}.",
        read=str,
        axis=True,
    ),
    Column("row", "Name of the row. Token 1 is the same token everywhere.", read=str, axis=True),
    Column(
        "column", "Name of the column. Key 1 is the key of token 1, and so on.", read=str, axis=True
    ),
    Column("value", "The entry."),
)


def memory(slab: Slab) -> int:
    """Return the bytes that one cell takes: a few arrays of a dozen numbers, and their rows."""
    return 2**20


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed on one core."""
    return 0.01


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield both scale rules of every seed; they share their draw."""
    for seed in range(*slab["seeds"]):
        for scaling, scale in ARMS.items():
            yield {"scaling": scaling, "seed": seed}, partial(measure, seed, scale)


def draw(seed: int) -> dict[str, Floats]:
    """Draw the tokens [3, 4], standard normal, then W_q, W_k, W_v [4, 4], N(0, 0.5²), in order.

    Uses NumPy's legacy generator, whose stream of numbers is frozen (NEP 19).
    """
    generator = np.random.RandomState(seed)
    drawn: dict[str, Floats] = {"x": generator.standard_normal((TOKENS, DIMENSIONS))}
    for name in ("W_q", "W_k", "W_v"):
        drawn[name] = generator.normal(0, WEIGHT_SD, (DIMENSIONS, DIMENSIONS))
    return drawn


def arrays(seed: int, scale: float) -> dict[str, Floats]:
    """Compute every array of the example by its name, in the order of the computation."""
    drawn = draw(seed)
    x, w_q, w_k, w_v = drawn.values()
    q, k, v = project(x, w_q), project(x, w_k), project(x, w_v)
    forward = attention(q, k, v, scale=scale)
    rows = row_metrics(forward.logits)
    of_rows = [rows.entropy_nats, rows.max_weight, forward.weights.sum(axis=-1)]
    # The loss is the sum of all entries of the output.
    backward = gradients(q, k, v, np.ones_like(forward.output), forward, scale=scale)
    found = drawn | {"q": q, "k": k, "v": v} | forward._asdict()
    found |= {
        "sqrt_d_k": np.full((1, 1), q.shape[-1] ** 0.5),
        "scale": np.full((1, 1), scale),
        "weight_rows": np.stack(of_rows, axis=-1),
    }
    found |= {f"grad_{name}": array for name, array in backward._asdict().items()}
    return {name: found[name] for name in ARRAYS}


def measure(seed: int, scale: float) -> list[Row]:
    """Return one row for each entry of each array."""
    return [
        {"step": step, "array": name, "row": row, "column": column, "value": float(value)}
        for step, (name, array) in enumerate(arrays(seed, scale).items(), start=1)
        for row, entries in zip(_names(ARRAYS[name].rows, len(array)), array, strict=True)
        for column, value in zip(
            ARRAYS[name].names or _names(ARRAYS[name].columns, array.shape[-1]),
            entries,
            strict=True,
        )
    ]


def _names(word: str, count: int) -> list[str]:
    """Return names of rows or columns; a single number needs no index."""
    return [word] if word == "all" else [f"{word} {place}" for place in range(1, count + 1)]
