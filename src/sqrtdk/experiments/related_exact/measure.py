"""Compare means of related vectors with their exact values, at random sizes and parameters.

Each seed is a point of its own: a dimension, a number of keys, a scale and the parameters of the
law are drawn, then many queries, each with keys of its own. So the points of one metric are
independent of each other, and so are the queries behind a mean.
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from sqrtdk import schema
from sqrtdk.core import input_laws, random_streams
from sqrtdk.core.attention import attention
from sqrtdk.core.gradients import gradients
from sqrtdk.core.metrics import row_metrics
from sqrtdk.core.random_streams import Purpose
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.cells import Cell
from sqrtdk.schema import Column, Entry, Key
from sqrtdk.storage.tables import Row
from sqrtdk.theory import points, related
from sqrtdk.theory.expectations import Expectations
from sqrtdk.theory.related import Law

LAWS = ("planted", "correlated", "sphere")

VECTORS = Key(
    "vectors",
    "choice",
    "Law of q and k: a planted match, a match that is turned by a random angle, or the sphere.",
    choices=LAWS,
)

DRAWS = Key(
    "draws",
    "whole",
    "Independent queries, each with keys of its own, behind one mean.",
    minimum=50,
    maximum=100_000,
    axis=False,
)

CONFIG_KEYS: tuple[Key, ...] = (VECTORS, DRAWS, schema.SEED)

BATCHED_AXES: tuple[str, ...] = ()

D_K, N_K, CORRELATION = (4, 64), (2, 128), 0.9
"""The sizes that are drawn, log-uniform, and the largest correlation in magnitude. In two
dimensions |q|² is exponential, and the mean of a few hundred squared gradients far from normal."""

SIGMA = (0.25, 2.0)
"""The scale times √d_k is log-uniform between these."""

SEEN = 0.05
"""Exact mean of 1 - max p below which a point is drawn again: rows too rare to see carry it."""

D_V = 16
"""Dimension of values and output gradients. In one dimension a squared gradient has that of a
product of two normal numbers in it, so skewed that the mean of a few hundred is not normal."""

BLOCK = 250
"""Draws whose keys are in memory at a time."""

METRICS = (
    "entropy_nats",
    "sum_sq_weights",
    "max_weight",
    "match_weight",
    "jacobian_sq",
    "grad_logits_sq",
    "grad_q_sq",
    "grad_k_sq",
)
"""Fields of `theory.Expectations` that are compared."""

COLUMNS: tuple[Column, ...] = (
    schema.axis_column(VECTORS),
    Column("expectation", "A mean of theory.Expectations.", read=str, axis=True),
    schema.axis_column(schema.SEED),
    Column("size_d_k", "Dimension of the point.", "dimensions", read=int),
    Column("size_n_k", "Number of keys of the point.", "keys", read=int),
    Column("scale", "Factor on the scores."),
    Column("correlation", "Of a query and its match; 0 on the sphere."),
    Column("alignment", "Cosine of the angle that the match is turned by; 1 on the sphere."),
    Column("mean", "Mean over the draws."),
    Column("exact", "Exact expectation."),
    Column("z", "(mean - exact) in standard errors of the mean."),
)


class Slab(schema.Slab):
    """The work of one shard job: some seeds of one law."""

    vectors: str
    draws: int


class Point(NamedTuple):
    """The sizes, the scale and the law of one point."""

    d_k: int
    n_k: int
    scale: float
    entry: Entry

    @property
    def law(self) -> Law:
        """Return the law as the theory sees it."""
        found = points.law_at(self.entry, self.d_k)
        if found is None:
            raise ValueError(f"{self.entry} has no exact values at d_k = {self.d_k}")
        return found


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    exact = 0.005 if slab["vectors"] == "sphere" else 0.07
    return float(exact + 3e-5 * slab["draws"])


def memory(slab: Slab) -> int:
    """Return the peak memory, in bytes, of one point: some arrays of the keys of a block."""
    return 8 * 8 * min(slab["draws"], BLOCK) * N_K[1] * (D_K[1] + D_V)


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield the axes of each point of a slab, and the function that measures it."""
    for seed in range(*slab["seeds"]):
        axes: Row = {"vectors": slab["vectors"], "seed": seed}
        yield axes, partial(measure, slab["vectors"], seed, slab["draws"])


def measure(vectors: str, seed: int, draws: int) -> list[Row]:
    """Measure one point, with a row for each metric."""
    generator = random_streams.stream(Purpose.RELATED_EXACT, LAWS.index(vectors), seed)
    point, exact = draw_point(generator, vectors)
    law = point.law
    found: list[Row] = []
    for metric, values in sample(generator, point, draws).items():
        mean = float(np.mean(values))
        error = float(np.std(values, ddof=1)) / math.sqrt(draws)
        target = float(getattr(exact, metric))
        found.append(
            {
                "expectation": metric,
                "size_d_k": point.d_k,
                "size_n_k": point.n_k,
                "scale": point.scale,
                "correlation": law.correlation,
                "alignment": law.alignment,
                "mean": mean,
                "exact": target,
                "z": (mean - target) / error,
            }
        )
    return found


def draw_point(generator: np.random.Generator, vectors: str) -> tuple[Point, Expectations]:
    """Draw a point whose means are not carried by rare rows, and return its exact means."""
    while True:
        # Even, because a turned match needs pairs of coordinates.
        d_k = 2 * _size(generator, D_K[0] // 2, D_K[1] // 2)
        n_k = _size(generator, *N_K)
        sigma = math.exp(generator.uniform(*np.log(SIGMA)))
        correlation = float(generator.uniform(-CORRELATION, CORRELATION))
        alignment = float(generator.uniform(-1.0, 1.0))
        entries: dict[str, Entry] = {
            "planted": {"law": "planted", "cosine": correlation},
            "correlated": {
                "law": "correlated",
                "correlation": correlation,
                "alignment": alignment,
            },
            "sphere": {"law": "sphere", "arrays": "both"},
        }
        point = Point(d_k, n_k, sigma / math.sqrt(d_k), entries[vectors])
        exact = related.expectations_of(point.law, n_k, d_k, point.scale)
        if exact.max_weight_gap >= SEEN:
            return point, exact


def _size(generator: np.random.Generator, low: int, high: int) -> int:
    """Draw a whole number, log-uniform from low to high."""
    drawn = math.exp(generator.uniform(math.log(low), math.log(high + 1)))
    # Rounding may leave the range.
    return min(max(int(drawn), low), high)


def sample(generator: np.random.Generator, point: Point, draws: int) -> dict[str, Floats]:
    """Return each metric for every draw, [draws]: one query, its own keys, values and gradient.

    Squares of gradients are over d_v.
    """
    found = [
        _block(generator, point, min(BLOCK, draws - place)) for place in range(0, draws, BLOCK)
    ]
    return {name: np.concatenate([one[name] for one in found]) for name in METRICS}


def _block(generator: np.random.Generator, point: Point, draws: int) -> dict[str, Floats]:
    formula = input_laws.LAWS[str(point.entry["law"])].formula
    parameters = {name: value for name, value in point.entry.items() if name != "law"}
    sizes = {"d_k": point.d_k, "n_k": point.n_k, "n_q": 1}
    pairs = [formula(generator, generator, **sizes, **parameters) for _ in range(draws)]
    q, k = (np.stack(arrays) for arrays in zip(*pairs, strict=True))
    v = generator.standard_normal((draws, point.n_k, D_V))
    g = generator.standard_normal((draws, 1, D_V))
    forward = attention(q, k, v, scale=point.scale)
    backward = gradients(q, k, v, g, forward, scale=point.scale)
    rows = row_metrics(forward.logits[:, 0])
    return {
        "entropy_nats": rows.entropy_nats,
        "sum_sq_weights": rows.sum_sq_weights,
        "max_weight": rows.max_weight,
        "match_weight": forward.weights[:, 0, 0],
        "jacobian_sq": rows.jacobian_norm**2,
        "grad_logits_sq": np.sum(backward.logits**2, axis=(-2, -1)) / D_V,
        "grad_q_sq": np.sum(backward.q**2, axis=(-2, -1)) / D_V,
        "grad_k_sq": np.sum(backward.k**2, axis=(-2, -1)) / D_V,
    }
