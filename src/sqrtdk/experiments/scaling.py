"""Scaling on and off against d_k: what the softmax and its gradients do.

A slab is one combination of sizes, input law and dtype; its cells are seeds × scale rules. All
scale rules of a seed share one draw and its scores.
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from sqrtdk import gradients, keys, metrics, scales
from sqrtdk.attention import ScaleRule, attention
from sqrtdk.cells import Cell, main
from sqrtdk.inputs import Array, draw
from sqrtdk.keys import Column, Key

KEYS: tuple[Key, ...] = (
    keys.D_K,
    keys.N_K,
    keys.N_Q,
    keys.D_V,
    keys.INPUTS,
    keys.DTYPE,
    keys.SCALING,
    keys.SEED,
)

WITHIN: tuple[str, ...] = ()
FACTORS_ONLY = False
HAS_THEORY = True

GRADIENTS = {
    "logits": "the logits (scores after scaling), one row a query",
    "scores": "the scores q·k (before scaling; norms of q and k held fixed), one row a query",
    "q": "the queries, one row a query",
    "k": "the keys, one row a key",
    "v": "the values, one row a key",
}


def _gradient_columns(x: str, what: str) -> tuple[Column, ...]:
    norm = f"the row norms of the gradient of L = ⟨G, O⟩ with respect to {what}, over √d_v"
    return (
        Column(f"grad_{x}_rms", f"Root mean square of {norm}.", pool="rms"),
        Column(f"grad_{x}_median", f"Median of {norm}."),
        Column(f"grad_{x}_q05", f"5 % quantile of {norm}."),
        Column(f"grad_{x}_q95", f"95 % quantile of {norm}."),
        Column(f"grad_{x}_dead_rows", f"Share of rows below 1e-3 among {norm}.", "share"),
        Column(
            f"grad_{x}_top1_share",
            f"Share of the total square held by the largest 1 % (at least one) of {norm}. "
            "Empty when every row is zero.",
            "share",
            optional=True,
        ),
    )


COLUMNS: tuple[Column, ...] = (
    *(
        keys.axis_column(key)
        for key in (
            keys.D_K, keys.N_K, keys.N_Q, keys.INPUTS, keys.DTYPE, keys.SCALING, keys.SEED
        )
    ),
    Column(
        "scale",
        "Factor that the scores are multiplied by, before a cap; mean over pairs of query and key "
        "where each has its own, as the scale rules that look at norms give it.",
    ),
    Column(
        "logit_std",
        "Standard deviation of the logits across keys: root mean square over queries of each "
        "row's (n_k - 1) standard deviation. Empty when n_k = 1.",
        optional=True,
        pool="rms",
    ),
    Column("entropy_nats", "Entropy of the attention weights, mean over queries.", "nats"),
    Column(
        "entropy_normalized",
        "Entropy over its largest possible value ln n_k, mean over queries. Empty when n_k = 1.",
        "share",
        optional=True,
    ),
    Column(
        "effective_keys",
        "Exponential of the entropy (perplexity), mean over queries: how many keys share the "
        "attention.",
        "keys",
    ),
    Column("sum_sq_weights", "Sum of the squared weights of a query, mean over queries."),
    Column("max_weight", "Largest weight of a query, mean over queries."),
    Column("max_weight_gap", "1 - largest weight, without cancellation, mean over queries."),
    Column(
        "jacobian_norm",
        "Frobenius norm of the softmax Jacobian diag(p) - p pᵀ, root mean square over queries.",
        pool="rms",
    ),
    *(column for x, what in GRADIENTS.items() for column in _gradient_columns(x, what)),
    Column(
        "grad_logits_dead_entries",
        "Share of single entries of the gradient with respect to the logits, over √d_v, that are "
        "below 1e-3/n_k in magnitude.",
        "share",
    ),
)  # fmt: skip


def memory(slab: dict[str, Any]) -> int:
    """Bytes that computing one cell of a slab takes at its peak, by the sizes of its arrays."""
    rows, n_q, n_k = slab["n_q"] + slab["n_k"], slab["n_q"], slab["n_k"]
    # q, k and their gradients, one norm temporary of each; v, g, output and two gradients; and
    # about twelve score-sized arrays alive at once in the metrics.
    floats = 3 * rows * slab["d_k"] + 3 * rows * slab["d_v"] + 12 * n_q * n_k
    # Drawn in float64 before the cast, whatever the dtype.
    return int(8 * floats)


def cells(slab: dict[str, Any]) -> Iterator[Cell]:
    """The cells of one slab, seed by seed, each with the function that measures it."""
    sizes = {name: slab[name] for name in ("d_k", "n_k", "n_q")}
    ((inputs, law),) = slab["inputs"].items()
    for seed in range(*slab["seeds"]):
        arrays = draw(law, **sizes, d_v=slab["d_v"], seed=seed, dtype=slab["dtype"])
        for scaling, rule in slab["scaling"].items():
            axes = {"inputs": inputs, "dtype": slab["dtype"], "scaling": scaling, "seed": seed}
            scale = scales.rule(rule, d_k=slab["d_k"], n_k=slab["n_k"])
            yield sizes | axes, partial(measure, *arrays, scale=scale)


def measure(q: Array, k: Array, v: Array, g: Array, *, scale: ScaleRule) -> dict[str, float]:
    """Every metric of one cell, without masks.

    Shapes: q [n_q, d_k], k [n_k, d_k], v [n_k, d_v], g [n_q, d_v].
    """
    forward = attention(q, k, v, scale=scale)
    rows = metrics.row_metrics(forward.logits)
    found = {
        "scale": scale.mean_factor(q, k),
        "logit_std": float(metrics.logit_std(forward.logits)),
        **{
            name: float(np.mean(getattr(rows, name), dtype=np.float64))
            for name in rows._fields
            if name != "jacobian_norm"
        },
        "jacobian_norm": _rms(rows.jacobian_norm),
    }
    backward = gradients.gradients(q, k, v, g, forward, scale=scale)
    unit = v.shape[-1] ** -0.5
    for x in GRADIENTS:
        norms = metrics.row_norms(getattr(backward, x)).astype(np.float64) * unit
        summary = metrics.summarize_norms(norms)
        found |= {f"grad_{x}_{name}": float(getattr(summary, name)) for name in summary._fields}
    dead = metrics.dead_entries(backward.logits, below=1e-3 / k.shape[-2] / unit)
    return found | {"grad_logits_dead_entries": float(dead)}


def _rms(values: Array) -> float:
    # Norms of a saturated row are below 1e-160, where a plain square is 0.
    total = float(metrics.row_norms(values.astype(np.float64)))
    return total / math.sqrt(len(values))


if __name__ == "__main__":
    main(cells, COLUMNS)
