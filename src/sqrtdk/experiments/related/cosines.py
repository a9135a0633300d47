"""Compute cosines.csv of `related`: the weight of a key by its cosine with the query.

The input laws `planted` and `graded` give each query keys of known cosine. All other keys are
unrelated to it, with cosine 0. The cells are those of the grid, drawn again.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from sqrtdk import schema
from sqrtdk.core import scale_rules
from sqrtdk.core.attention import attention
from sqrtdk.core.input_laws import Array, draw, graded_cosines
from sqrtdk.schema import Column, Entry, Settings
from sqrtdk.stats import intervals
from sqrtdk.storage import tables

COLUMNS = (
    *(
        schema.axis_column(key)
        for key in (schema.D_K, schema.N_K, schema.N_Q, schema.INPUTS, schema.DTYPE, schema.SCALING)
    ),
    Column(
        "cosine",
        "Cosine of key and query in the input law; 0 for all keys that it leaves unrelated.",
        axis=True,
    ),
    Column(
        "metric",
        "weight: attention weight of a key. heard: share of queries that give the key at least an "
        "equal share, 1/n_k.",
        read=str,
        axis=True,
    ),
    Column("n_seeds", "Number of seeds: the sample size.", "seeds", read=int),
    Column("mean", "Mean over queries, keys of this cosine, and seeds."),
    Column("ci_low", "Lower end of the 95 % t-interval over seeds, at least 0.", optional=True),
    Column("ci_high", "Upper end of the 95 % t-interval over seeds, at most 1.", optional=True),
)


def cosines_of(law: Entry, n_k: int) -> list[float]:
    """Return the cosines of keys i, i + 1, ... mod n_k with query i; empty for other input laws."""
    # Parameters of these laws are numbers in a checked configuration.
    numbers = cast(Mapping[str, float], law)
    if law["law"] == "planted":
        return graded_cosines(n_k, cosine=numbers["cosine"], steps=1)
    if law["law"] == "graded":
        return graded_cosines(n_k, cosine=numbers["cosine"], steps=numbers["steps"])
    return []


def by_cosine(weights: Array, related: int) -> dict[str, list[float]]:
    """Return each metric for the related keys in order, then for all other keys together.

    `weights` is [n_q, n_k]; the last entry is missing if all keys are related.
    """
    n_q, n_k = weights.shape
    queries = np.arange(n_q)
    others = np.ones(weights.shape, dtype=bool)
    parts = []
    for place in range(related):
        key = (queries + place) % n_k
        parts.append(weights[queries, key])
        others[queries, key] = False
    if others.any():
        parts.append(weights[others])
    return {
        "weight": [float(np.mean(part, dtype=np.float64)) for part in parts],
        "heard": [float(np.mean(part >= 1 / n_k)) for part in parts],
    }


Seeds = list[dict[str, list[float]]]
"""The result of `by_cosine` for each seed."""


def rows(settings: Settings) -> Iterator[tables.Row]:
    """Measure every size, input law with related keys, and scale rule of the grid."""
    for axes, cosines, seeds in measured(settings):
        yield from summarized(axes, cosines, seeds)


def measured(settings: Settings) -> Iterator[tuple[tables.Row, list[float], Seeds]]:
    """Yield the axes, the cosines, and the numbers of each seed for every row of the grid."""
    sizes = [
        dict(zip(("d_k", "n_k", "n_q"), values, strict=True))
        for values in itertools.product(*(settings[x] for x in ("d_k", "n_k", "n_q")))
    ]
    laws = [(name, law) for name, law in sorted(settings["inputs"].items()) if cosines_of(law, 1)]
    rules = sorted(settings["scaling"].items())
    for at, (inputs, law), dtype in itertools.product(sizes, laws, sorted(settings["dtype"])):
        related = cosines_of(law, at["n_k"])
        cosines = [*related, 0.0][: at["n_k"]]
        found: dict[str, Seeds] = {name: [] for name, _ in rules}
        for seed in settings["seed"]:
            arrays = draw(dict(law), **at, d_v=settings["d_v"], seed=seed, dtype=dtype)
            for name, entry in rules:
                rule = scale_rules.rule(entry, d_k=at["d_k"], n_k=at["n_k"])
                weights = attention(arrays.q, arrays.k, arrays.v, scale=rule).weights
                found[name].append(by_cosine(weights, len(related)))
        for name, seeds in found.items():
            axes: tables.Row = {"inputs": inputs, "dtype": dtype, "scaling": name}
            yield axes | at, cosines, seeds


def summarized(axes: tables.Row, cosines: Sequence[float], seeds: Seeds) -> Iterator[tables.Row]:
    """Yield the rows of one cell, summarized over seeds, in rising order of the cosine."""
    for place, cosine in sorted(enumerate(cosines), key=lambda item: item[1]):
        for metric in ("heard", "weight"):
            values = np.array([one[metric][place] for one in seeds])
            low, high = np.clip(intervals.interval(values), 0.0, 1.0).tolist()
            yield axes | {
                "cosine": cosine,
                "metric": metric,
                "n_seeds": len(values),
                "mean": float(values.mean()),
                "ci_low": low,
                "ci_high": high,
            }
