"""Half precision against d_k: scaling before or after the score product.

The scores are computed like in a half-precision matrix unit: factors rounded to half, products
summed in float32, the sum rounded to half once. The softmax is computed in float64, so that all of
the error is that of the scores.
"""

import math
from collections.abc import Iterator, Sized
from functools import partial

import ml_dtypes
import numpy as np

from sqrtdk import schema
from sqrtdk.core import scale_rules
from sqrtdk.core.attention import softmax
from sqrtdk.core.input_laws import Array, draw
from sqrtdk.experiments.cells import Cell
from sqrtdk.schema import Column, Key
from sqrtdk.storage.tables import Row

HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}

INPUT_SD = Key(
    "input_sd",
    "whole",
    "Factor on q and k, the standard deviation of their entries under a law of unit variance: "
    "trained models have channels far above 1.",
    maximum=10**6,
)
PRECISION = Key(
    "precision", "choice", "Half-precision type of the score product.", choices=tuple(HALVES)
)
ORDER = Key(
    "order",
    "choice",
    "When the scale is applied: to q before the score product, or to the scores after it.",
    choices=("before", "after"),
)

CONFIG_KEYS: tuple[Key, ...] = (
    schema.D_K,
    schema.N_K,
    schema.N_Q,
    schema.INPUTS,
    INPUT_SD,
    PRECISION,
    ORDER,
    schema.SCALING,
    schema.SEED,
)

BATCHED_AXES: tuple[str, ...] = ("input_sd", "precision", "order")

COLUMNS: tuple[Column, ...] = (
    *(schema.axis_column(key) for key in CONFIG_KEYS),
    Column("scale", "Factor that the scores are multiplied by."),
    Column(
        "overflow_share",
        "Share of the scores that overflow to infinity.",
        "share",
        counted=("n_q", "n_k"),
    ),
    Column(
        "broken_rows",
        "Share of queries whose weights are undefined: one score overflowed upwards, or all "
        "downwards.",
        "share",
        counted=("n_q",),
    ),
    Column(
        "weight_error",
        "Total variation distance of the weights to those of float64, half the sum over keys of "
        "the absolute differences, mean over queries; a broken row counts as 1.",
        "share",
    ),
    Column(
        "max_weight_error",
        "Largest absolute error of a single weight over all queries; 1 if a row is broken.",
        within=schema.NOT_NEGATIVE,
    ),
)


class Slab(schema.Slab, total=False):
    """The work of one shard job. All values of the last three share a draw."""

    input_sd: list[float]
    precision: list[str]
    order: list[str]


def memory(slab: Slab) -> int:
    """Return the peak memory of one cell in bytes, from the sizes of its arrays."""
    rows, pairs = slab["n_q"] + slab["n_k"], slab["n_q"] * slab["n_k"]
    # q and k drawn, scaled by input_sd, rounded to half and widened to float32 for the product;
    # about six score-sized arrays.
    return int(8 * 3 * rows * slab["d_k"] + 8 * 6 * pairs)


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    axes: tuple[Sized, ...] = (
        slab["input_sd"],
        slab["precision"],
        slab["order"],
        slab["scaling"],
    )
    variants = math.prod(map(len, axes))
    vectors = (slab["n_q"] + slab["n_k"]) * slab["d_k"]
    return float(1e-4 + 1.5e-8 * vectors + variants * (1e-4 + 1e-8 * vectors))


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield the cells of one slab; all cells of a seed share one draw."""
    sizes = {"d_k": slab["d_k"], "n_k": slab["n_k"], "n_q": slab["n_q"]}
    ((inputs, law),) = slab["inputs"].items()
    for seed in range(*slab["seeds"]):
        q, k, _, _ = draw(law, **sizes, d_v=1, seed=seed, dtype="float64")
        for sd in slab["input_sd"]:
            for scaling, rule in slab["scaling"].items():
                scale = scale_rules.factor(rule, d_k=slab["d_k"], n_k=slab["n_k"])
                if scale is None:
                    raise ValueError(f"{scaling} is not one factor of d_k and n_k")
                exact = softmax((sd * q) @ (sd * k).T * scale)
                for precision in slab["precision"]:
                    for order in slab["order"]:
                        axes: Row = {
                            "inputs": inputs,
                            "input_sd": sd,
                            "precision": precision,
                            "order": order,
                            "scaling": scaling,
                            "seed": seed,
                        }
                        measured = partial(
                            measure,
                            sd * q,
                            sd * k,
                            exact,
                            scale=scale,
                            precision=precision,
                            order=order,
                        )
                        yield sizes | axes, measured


def half_logits(q: Array, k: Array, *, scale: float, precision: str, order: str) -> Array:
    """Compute the logits of q [n_q, d_k] and k [n_k, d_k] with the score product in half precision.

    An overflow is an infinity, as in IEEE arithmetic.
    """
    half = HALVES[precision]
    with np.errstate(over="ignore"):
        left = (q * scale if order == "before" else q).astype(half).astype(np.float32)
        scores = (left @ k.astype(half).astype(np.float32).T).astype(half)
        if order == "before":
            return scores.astype(np.float64)
        # Half times a float32 constant, rounded to half, like the epilogue of a fused kernel.
        return (scores.astype(np.float32) * np.float32(scale)).astype(half).astype(np.float64)


def measure(q: Array, k: Array, exact: Array, *, scale: float, precision: str, order: str) -> Row:
    """Measure overflow and error of the weights against `exact` [n_q, n_k], computed in float64."""
    logits = half_logits(q, k, scale=scale, precision=precision, order=order)
    infinite = np.isinf(logits)
    # The softmax subtracts the largest logit, and infinity minus itself is not a number.
    broken = (logits == np.inf).any(axis=-1) | (logits == -np.inf).all(axis=-1)
    error = np.abs(softmax(np.where(broken[:, np.newaxis], 0.0, logits)) - exact)
    error[broken] = 1.0
    distance = np.where(broken, 1.0, error.sum(axis=-1) / 2)
    return {
        "scale": scale,
        "overflow_share": float(infinite.mean()),
        "broken_rows": float(broken.mean()),
        "weight_error": float(distance.mean()),
        "max_weight_error": float(error.max()),
    }
