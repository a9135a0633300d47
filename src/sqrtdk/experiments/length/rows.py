"""Draw rows of scores, and find the scale at which their largest scores come apart.

A row holds the logits of one query under 1/√d_k at d_k = 64. `independent` rows have unrelated
keys, `planted` ones also a match of cosine 0.5, and `exponential` rows have independent scores of
variance 1 with tails like exp(-√2 |x|), heavier than normal ones. Each row has keys of its own, so
that its law is the exact one of theory at any length.
"""

import math
from typing import Literal, TypeAlias, get_args

import numpy as np

from sqrtdk.core import random_streams
from sqrtdk.core.gaps import separation
from sqrtdk.core.random_streams import Purpose
from sqrtdk.core.shapes import Floats

RowLaw: TypeAlias = Literal["independent", "planted", "exponential"]

ROW_LAWS: tuple[str, ...] = get_args(RowLaw)

HEAD = 64
"""The d_k of the queries and keys behind a row."""

COSINE = 0.5
"""Cosine of a query with its match."""

CALIBRATION, FEWEST_ROWS = 2**20, 64
"""Scores that the gap-counting scale is measured on, in rows of their own, and the fewest rows."""


def stream(law: str, n_k: int, seed: int, *, calibration: bool = False) -> np.random.Generator:
    """Return the random stream of the rows of one cell, or of the calibration of a length."""
    key = (ROW_LAWS.index(law), n_k, seed, int(calibration))
    return random_streams.stream(Purpose.LENGTH, *key)


def draw(generator: np.random.Generator, law: str, n_rows: int, n_k: int) -> Floats:
    """Draw rows of logits, [n_rows, n_k]; the match, if there is one, is key 0."""
    if law == "exponential":
        return generator.laplace(scale=1 / math.sqrt(2), size=(n_rows, n_k))
    norm = np.sqrt(generator.chisquare(HEAD, size=(n_rows, 1)))
    x = generator.standard_normal((n_rows, n_k))
    if law == "planted":
        x[:, :1] = COSINE * norm + math.sqrt(1 - COSINE**2) * x[:, :1]
    logits: Floats = norm / math.sqrt(HEAD) * x
    return logits


def gap_scale(law: str, n_k: int) -> float:
    """Return the median over rows of the factor at which the largest scores come apart."""
    n_rows = max(FEWEST_ROWS, CALIBRATION // n_k)
    rows = draw(stream(law, n_k, 0, calibration=True), law, n_rows, n_k)
    return float(np.median(separation(rows)))
