"""Measure how selective attention is against the number of keys, under factors that grow with it.

All powers of log n and the gap-counting scale are 1 at 16 keys, as if a model had been trained
there. All rules of a cell use the same rows.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from sqrtdk import schema
from sqrtdk.core import scale_rules
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.cells import Cell
from sqrtdk.experiments.length import gap
from sqrtdk.experiments.length import rows as row_laws
from sqrtdk.experiments.length.rows import HEAD, ROW_LAWS, Rows
from sqrtdk.schema import Column, Entry, Key
from sqrtdk.storage.tables import Row

TRAINED = 16
"""The number of keys at which the powers of log n and the gap-counting scale are 1."""

N_K = replace(schema.N_K, minimum=2)
"""One key always has the weight 1, and ln 1 is 0."""

ROWS = Key(
    "rows",
    "choice",
    "Law of a row's scores: those of unrelated keys, of keys among which is a match, or with "
    "exponential tails.",
    choices=ROW_LAWS,
)

POWER_STEPS = Key(
    "power_steps",
    "whole",
    "Steps of the power of log n between 0 and 1; it goes on to 2.5 in the same steps.",
    minimum=2,
    maximum=100,
    axis=False,
)

CONFIG_KEYS: tuple[Key, ...] = (N_K, schema.N_Q, ROWS, POWER_STEPS, schema.SEED)

BATCHED_AXES: tuple[str, ...] = ("n_k",)

PUBLISHED: dict[str, Entry] = {
    "ssmax": {"rule": "log_length", "log_exponent": 1.0, "multiplier": 0.43},
    "yarn": {"rule": "yarn", "trained": float(TRAINED), "slope": 0.1},
}
"""Scale rules of models with their published constants, as entries of `scale_rules`."""

GAP = "gap"
"""The name of the gap-counting scale."""

COLUMNS: tuple[Column, ...] = (
    *(schema.axis_column(key) for key in (N_K, schema.N_Q, ROWS)),
    Column(
        "rule",
        f"A number: the power of log n_k. {GAP}: the gap-counting scale. ssmax and yarn: those "
        "rules with their published constants.",
        read=str,
        axis=True,
    ),
    schema.axis_column(schema.SEED),
    Column("factor", "Factor on the logits of 1/√d_k."),
    Column(
        "selectivity",
        "Weight of the match (planted rows) or largest weight (others), mean over rows.",
        within=schema.SHARE,
    ),
    Column(
        "entropy_share", "Entropy over its largest possible value ln n_k, mean over rows.", "share"
    ),
)


class Slab(schema.Slab):
    """The work of one shard job: all n_k of one law of rows, some seeds."""

    rows: str
    power_steps: int


class Settings(schema.Settings):
    """The values of the experiment's keys in a run."""

    rows: list[str]
    power_steps: int


def powers(steps: int) -> list[float]:
    """Return the powers of log n from 0 to 2.5, `steps` of them between 0 and 1.

    >>> powers(2)
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    """
    return [place / steps for place in range(5 * steps // 2 + 1)]


def power_factor(n_k: int, power: float) -> float:
    """Return (ln n_k / ln 16)^power.

    >>> power_factor(256, 1.0)
    2.0
    """
    return math.pow(math.log(n_k) / math.log(TRAINED), power)


def gap_factor(law: str, n_k: int) -> float:
    """Return the gap-counting scale of a length over that of 16 keys."""
    return gap.gap_scale(law, n_k) / gap.gap_scale(law, TRAINED)


def factors(law: str, n_k: int, steps: int) -> dict[str, float]:
    """Return the factor of each rule at a length."""
    found = {f"{power:g}": power_factor(n_k, power) for power in powers(steps)}
    found[GAP] = gap_factor(law, n_k)
    for name, entry in PUBLISHED.items():
        factor = scale_rules.factor(entry, d_k=HEAD, n_k=n_k)
        found[name] = float(factor or 0.0) * math.sqrt(HEAD)
    return found


def memory(slab: Slab) -> int:
    """Return the peak memory, in bytes, of one cell: some arrays of its rows."""
    most = max(_sizes(slab))
    return 8 * 5 * max(slab["n_q"] * most, gap.ROWS * gap.TOP)


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    rules = 2.5 * slab["power_steps"] + 4
    return float(sum(1.5e-8 * slab["n_q"] * n_k * (2 + rules) for n_k in _sizes(slab)))


def _sizes(slab: Slab) -> list[int]:
    return slab["n_k"] if isinstance(slab["n_k"], list) else [slab["n_k"]]


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield the axes of each cell of a slab, and the function that measures it."""
    n_q, law = slab["n_q"], slab["rows"]
    for n_k in _sizes(slab):
        for seed in range(*slab["seeds"]):
            axes: Row = {"n_k": n_k, "n_q": n_q, "rows": law, "seed": seed}
            yield axes, partial(measure, law, n_k, n_q, seed, slab["power_steps"])


def measure(law: str, n_k: int, n_q: int, seed: int, steps: int) -> list[Row]:
    """Measure the rows of one seed, with a row of the table for each rule."""
    rows = row_laws.draw(row_laws.stream(law, n_k, seed), law, n_q, n_k)
    found: list[Row] = []
    for rule, factor in factors(law, n_k, steps).items():
        one = concentration(rows, factor)
        found.append(
            {
                "rule": rule,
                "factor": factor,
                "selectivity": float(np.mean(one.chosen)),
                "entropy_share": float(np.mean(one.entropy) / math.log(n_k)),
            }
        )
    return found


class Concentration(NamedTuple):
    """Of each row: its entropy in nats, and the weight that is its selectivity.

    That is the weight of each of its matches, [n_rows, MATCHES], or without matches the largest
    weight, [n_rows].
    """

    entropy: Floats
    chosen: Floats


def concentration(rows: Rows, factor: float) -> Concentration:
    """Return the statistics of softmax(factor * logits) in two arrays as large as the keys.

    With a match of logit m the entropy is ln T - E[logit], T the sum of the other keys and e^m, and
    E[logit] their mean and m, weighted by their parts of T.
    """
    top = np.max(rows.keys, axis=-1, keepdims=True)
    below = rows.keys - top
    below *= factor
    e = np.exp(below)
    total = np.sum(e, axis=-1)
    mean = np.vecdot(e, below) / total
    if rows.matches is None:
        return Concentration(np.log(total) - mean, 1.0 / total)
    match = factor * (rows.matches - top)
    with_match = np.logaddexp(np.log(total)[:, np.newaxis], match)
    weight = np.exp(match - with_match)
    inside = (1.0 - weight) * mean[:, np.newaxis] + weight * match
    return Concentration(with_match - inside, weight)
