"""Initialisation: the logits of self-attention in a layer that has not been trained.

Tokens x [n_k, d_model] are embeddings, with or without LayerNorm. Queries x W_q + b_q and keys
x W_k + b_k come from one of the usual initialisations of the projections. Scale rules and sizes of
the embeddings share draws. Every other combination of axes has a draw of its own, so that its
deviation from the exact value is independent of the others.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from sqrtdk import schema
from sqrtdk.core import scale_rules
from sqrtdk.core.metrics import logit_std, row_metrics
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.cells import Cell, lazy_batch
from sqrtdk.experiments.initialisation import model
from sqrtdk.experiments.initialisation.model import Init, Norm
from sqrtdk.schema import Column, Key
from sqrtdk.storage.tables import Row

D_MODEL = Key("d_model", "whole", "Dimension of a token.", "dimensions")
INIT = Key(
    "init",
    "choice",
    "Initialisation of W_q and W_k. xavier_head: Xavier's uniform law for the matrix of one head, "
    "[d_model, d_k]; xavier: for all heads, [d_model, d_model]; xavier_fused: for W_q, W_k and W_v "
    "in one matrix, [d_model, 3 d_model]. linear: uniform within 1/√d_model, biases too. "
    "normal_02: normal, standard deviation 0.02. t5: normal, (d_model d_k)^-½ for W_q and "
    "d_model^-½ for W_k, made for no scale at run time.",
    choices=model.INITS,
)
NORM = Key(
    "norm",
    "choice",
    "What the projections read: each token after LayerNorm (mean 0, variance 1, no epsilon), or "
    "the token itself.",
    choices=model.NORMS,
)
EMBEDDING_SD = Key("embedding_sd", "number", "Standard deviation of the entries of a token.")
COSINE = Key(
    "cosine_percent",
    "whole",
    "Correlation of the entries of any two tokens, the expected cosine of two tokens without "
    "LayerNorm at a large d_model: 0 for unrelated tokens.",
    "%",
    minimum=0,
    maximum=99,
)

CONFIG_KEYS: tuple[Key, ...] = (
    D_MODEL,
    schema.D_K,
    schema.N_K,
    EMBEDDING_SD,
    COSINE,
    NORM,
    INIT,
    schema.SCALING,
    schema.SEED,
)

BATCHED_AXES = ("embedding_sd", "cosine_percent", "norm", "init")

COLUMNS: tuple[Column, ...] = (
    *(schema.axis_column(key) for key in CONFIG_KEYS),
    Column(
        "logit_std",
        "σ of the logits: root of the mean over queries of the variance across keys (divisor "
        "n_k - 1).",
        pool="rms",
    ),
    Column(
        "entropy_normalized",
        "Entropy of the weights over ln n_k, mean over queries; empty for one key.",
        "share",
        optional=True,
    ),
    Column("max_weight", "Largest weight of a query, mean over queries.", "share"),
)


class Settings(schema.Settings, total=False):
    """The values of the experiment's keys in a run."""

    d_model: list[int]
    embedding_sd: list[float]
    cosine_percent: list[int]
    norm: list[Norm]
    init: list[Init]


class Slab(schema.Slab, total=False):
    """The work of one shard job: one d_model, d_k and n_k, all other axes."""

    d_model: int
    embedding_sd: list[float]
    cosine_percent: list[int]
    norm: list[Norm]
    init: list[Init]


def memory(slab: Slab) -> int:
    """Return the peak memory of one cell in bytes."""
    d_model, d_k, n_k = slab["d_model"], slab["d_k"], slab["n_k"]
    return int(8 * (3 * d_model * d_k + 4 * n_k * d_model + 3 * n_k * d_k + 12 * n_k**2))


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    d_model, d_k, n_k = slab["d_model"], slab["d_k"], slab["n_k"]
    draws = len(slab["embedding_sd"]) * len(slab["cosine_percent"])
    draws *= len(slab["norm"]) * len(slab["init"])
    one = 2e-4 + 2e-8 * d_model * (d_k + n_k) + len(slab["scaling"]) * (1e-4 + 1e-7 * n_k**2)
    return float(draws * one)


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield the cells of one slab; all scale rules of a seed see the same scores."""
    sizes: Row = {name: slab[name] for name in ("d_model", "d_k", "n_k")}
    for seed in range(*slab["seeds"]):
        for sd in slab["embedding_sd"]:
            for cosine in slab["cosine_percent"]:
                for norm in slab["norm"]:
                    for init in slab["init"]:
                        drawn = partial(_scores, slab, sd, cosine, norm, init)
                        found = lazy_batch(drawn, [seed])
                        axes: Row = {"embedding_sd": sd, "cosine_percent": cosine, "norm": norm}
                        axes |= {"init": init, "seed": seed}
                        for scaling, rule in slab["scaling"].items():
                            factor = scale_rules.factor(rule, d_k=slab["d_k"], n_k=slab["n_k"])
                            if factor is None:
                                raise ValueError(f"{scaling} is not one factor of d_k and n_k")
                            yield (
                                sizes | axes | {"scaling": scaling},
                                partial(measure, found, factor),
                            )


def _scores(
    slab: Slab, sd: float, cosine: int, norm: Norm, init: Init, seeds: list[int]
) -> list[Floats]:
    sizes = slab["d_model"], slab["d_k"], slab["n_k"]
    return [model.draw(*sizes, embedding_sd=sd, cosine=cosine, norm=norm, init=init, seed=seed)
            for seed in seeds]  # fmt: skip


def measure(found: Callable[[int], Floats], factor: float) -> Row:
    """Measure one cell with a factor on its scores."""
    logits = factor * found(0)
    rows = row_metrics(logits)
    # One key has no spread and no entropy to share.
    alone = logits.shape[-1] == 1
    return {
        "logit_std": 0.0 if alone else float(logit_std(logits)),
        "entropy_normalized": math.nan if alone else float(np.mean(rows.entropy_normalized)),
        "max_weight": float(np.mean(rows.max_weight)),
    }
